package ringfence_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// orderByAccount delivers the payments of an account in order, whatever their keys are.
func orderByAccount(ctx context.Context, rf *ringfence.Client, charge ringfence.Handler) error {
	_, err := rf.Admin().CreateSubscription(ctx, "ledger", admin.SubscriptionConfig{Topic: "payments", Order: api.OrderByFunction})
	if err != nil {
		return err
	}
	return rf.Subscribe(ctx, "ledger", charge, &ringfence.SubscribeOptions{
		OrderBy: func(key []byte) []byte {
			account, _, _ := bytes.Cut(key, []byte("/"))
			return account
		},
	})
}

// Records whose keys have the same account come one after the other.
func ExampleSubscribeOptions_orderBy() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rf, err := ringfence.Open(ctx, ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		log.Fatal(err)
	}
	defer rf.Close()
	if err := rf.EnsureTopic(ctx, "payments", ringfence.TopicConfig{Partitions: 1}); err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"acct-42/1", "acct-42/2", "acct-42/3"} {
		if _, err := rf.Produce(ctx, "payments", ringfence.Message{Key: []byte(key)}); err != nil {
			log.Fatal(err)
		}
	}
	err = orderByAccount(ctx, rf, func(_ context.Context, m *ringfence.Message) error {
		fmt.Printf("charged %s\n", m.Key)
		if string(m.Key) == "acct-42/3" {
			cancel()
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// charged acct-42/1
	// charged acct-42/2
	// charged acct-42/3
}
