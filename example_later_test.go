package ringfence_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// transfer hands its messages over to a bank, which says some time later how each went.
func transfer(ctx context.Context, rf *ringfence.Client, ask func(m *ringfence.Message, done func(error))) error {
	return rf.Subscribe(ctx, "billing", func(ctx context.Context, m *ringfence.Message) error {
		later := m.Later()
		ask(m, func(err error) {
			if err := later.Answer(err); err != nil {
				log.Print(err) // the message is delivered again
			}
		})
		return nil // nothing of the message's key comes before the answer
	}, nil)
}

// store inserts many messages with one statement.
func store(ctx context.Context, rf *ringfence.Client, insert func(context.Context, []*ringfence.Message) (refused []int, err error)) error {
	return rf.SubscribeBatch(ctx, "billing", func(ctx context.Context, ms []*ringfence.Message) []error {
		errs := make([]error, len(ms))
		refused, err := insert(ctx, ms)
		for i := range errs {
			errs[i] = err // nil, unless the statement failed
		}
		for _, i := range refused {
			errs[i] = ringfence.Permanent(errors.New("it violates a constraint"))
		}
		return errs
	}, &ringfence.SubscribeOptions{BatchSize: 500})
}

func openBilling(ctx context.Context, values ...string) *ringfence.Client {
	rf, err := ringfence.Open(ctx, ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		log.Fatal(err)
	}
	if err := rf.EnsureTopic(ctx, "payments", ringfence.TopicConfig{Partitions: 1}); err != nil {
		log.Fatal(err)
	}
	if _, err := rf.Admin().CreateSubscription(ctx, "billing", admin.SubscriptionConfig{Topic: "payments"}); err != nil {
		log.Fatal(err)
	}
	for _, v := range values {
		key, value, _ := strings.Cut(v, ":")
		if _, err := rf.Produce(ctx, "payments", ringfence.Message{Key: []byte(key), Value: []byte(value)}); err != nil {
			log.Fatal(err)
		}
	}
	return rf
}

// A handler may return before the work is done, and answer from another goroutine.
func ExampleMessage_Later() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rf := openBilling(ctx, "acct-42:3", "acct-42:5")
	defer rf.Close()
	err := transfer(ctx, rf, func(m *ringfence.Message, done func(error)) {
		go func() {
			fmt.Printf("transferred %s of %s\n", m.Value, m.Key)
			if string(m.Value) == "5" {
				cancel()
			}
			done(nil)
		}()
	})
	fmt.Println(err)
	// Output:
	// transferred 3 of acct-42
	// transferred 5 of acct-42
	// <nil>
}

// What fails in a batch fails by itself. Of each key there is one message at a time.
func ExampleClient_SubscribeBatch() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rf := openBilling(ctx, "acct-42:3", "acct-42:broken", "acct-42:5", "acct-7:9")
	defer rf.Close()
	done, all := 0, make(chan struct{})
	var letters []api.DeadLetter
	go func() { // what was refused is a dead letter a moment later
		<-all
		for range time.Tick(10 * time.Millisecond) {
			if letters, _ = rf.Admin().ListDeadLetters(context.Background(), "billing", nil); len(letters) > 0 {
				cancel()
				return
			}
		}
	}()
	err := store(ctx, rf, func(_ context.Context, ms []*ringfence.Message) (refused []int, err error) {
		for i, m := range ms {
			if string(m.Value) == "broken" {
				refused = append(refused, i) // a dead letter, behind which acct-42 waits
			}
		}
		if done += len(ms); done == 3 {
			close(all)
		}
		return refused, nil
	})
	fmt.Println(done, letters[0].Value, err)
	// Output: 3 broken <nil>
}
