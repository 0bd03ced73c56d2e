package ringfence_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ringfence/ringfence"
)

// A record that fails is retried in order: the later ones of its key wait for it, and those of
// other keys don't.
func ExampleClient_Consume_retry() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rf, err := ringfence.Open(ctx, ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		log.Fatal(err)
	}
	defer rf.Close()
	if err := rf.EnsureTopic(ctx, "orders", ringfence.TopicConfig{Partitions: 1}); err != nil {
		log.Fatal(err)
	}
	for _, m := range []ringfence.Message{
		{Key: []byte("a"), Value: []byte("a1")},
		{Key: []byte("a"), Value: []byte("a2")},
		{Key: []byte("b"), Value: []byte("b1")},
	} {
		if _, err := rf.Produce(ctx, "orders", m); err != nil {
			log.Fatal(err)
		}
	}
	opts := &ringfence.ConsumeOptions{Concurrency: 1, Retry: ringfence.Retry{Initial: 20 * time.Millisecond}}
	err = rf.Consume(ctx, "orders", "shipping", func(_ context.Context, m *ringfence.Message) error {
		fmt.Printf("%s attempt %d\n", m.Value, m.Attempt)
		switch {
		case string(m.Value) == "a1" && m.Attempt == 1:
			return errors.New("the carrier does not answer")
		case string(m.Value) == "a2":
			cancel()
		}
		return nil
	}, opts)
	fmt.Println(err)
	// Output:
	// a1 attempt 1
	// b1 attempt 1
	// a1 attempt 2
	// a2 attempt 1
	// <nil>
}
