package ringfence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// deliver is a program that delivers a subscription until ctx ends.
func deliver(ctx context.Context, rf *ringfence.Client, charge ringfence.Handler) error {
	_, err := rf.Admin().CreateSubscription(ctx, "billing", admin.SubscriptionConfig{Topic: "payments", Retry: admin.Retry{Attempts: 5}})
	if err != nil {
		return err
	}
	return rf.Subscribe(ctx, "billing", func(ctx context.Context, m *ringfence.Message) error {
		if len(m.Value) == 0 {
			return ringfence.Permanent(errors.New("no amount")) // a dead letter at once
		}
		return charge(ctx, m) // ringfence.RetryAfter(err, d) says when to try again, Outage(err) that nothing works
	}, nil)
}

// A record that can never succeed becomes a dead letter. It blocks its key, and no other, until
// somebody decides about it.
func ExampleClient_Subscribe() {
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
	for _, m := range []ringfence.Message{
		{Key: []byte("acct-42")},
		{Key: []byte("acct-42"), Value: []byte("5")},
		{Key: []byte("acct-7"), Value: []byte("3")},
	} {
		if _, err := rf.Produce(ctx, "payments", m); err != nil {
			log.Fatal(err)
		}
	}
	err = deliver(ctx, rf, func(ctx context.Context, m *ringfence.Message) error {
		fmt.Printf("charged %s %s\n", m.Key, m.Value)
		if string(m.Key) == "acct-7" {
			// The other key goes on by itself; that of the dead letter does when that is discarded.
			for n := 0; n == 0; {
				if n, err = rf.Admin().DiscardDeadLetters(ctx, "billing", nil); err != nil {
					return err
				}
			}
			return nil
		}
		cancel()
		return nil
	})
	fmt.Println(err)
	// Output:
	// charged acct-7 3
	// charged acct-42 5
	// <nil>
}
