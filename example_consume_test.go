package ringfence_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ringfence/ringfence"
)

// Consume hands records to a handler until its context ends; then it drains and commits.
func ExampleClient_Consume() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rf, err := ringfence.Open(ctx, ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		log.Fatal(err)
	}
	defer rf.Close()
	if err := rf.EnsureTopic(ctx, "payments", ringfence.TopicConfig{Partitions: 8}); err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		m := ringfence.Message{Key: []byte("acct-42"), Value: fmt.Append(nil, i)}
		if _, err := rf.Produce(ctx, "payments", m); err != nil {
			log.Fatal(err)
		}
	}
	err = rf.Consume(ctx, "payments", "billing", func(_ context.Context, m *ringfence.Message) error {
		fmt.Printf("%s: %s\n", m.Key, m.Value)
		if m.Offset == 2 {
			cancel() // enough
		}
		return nil
	}, nil)
	fmt.Println("drained:", err)
	// Output:
	// acct-42: 0
	// acct-42: 1
	// acct-42: 2
	// drained: <nil>
}
