package ringfence_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ringfence/ringfence"
)

// Produce returns when the message is stored; its place never changes.
func ExampleClient_Produce() {
	ctx := context.Background()
	rf, err := ringfence.Open(ctx, ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		log.Fatal(err)
	}
	defer rf.Close()
	if err := rf.EnsureTopic(ctx, "payments", ringfence.TopicConfig{Partitions: 8}); err != nil {
		log.Fatal(err)
	}
	for _, amount := range []string{"10", "20"} {
		at, err := rf.Produce(ctx, "payments", ringfence.Message{Key: []byte("acct-42"), Value: []byte(amount)})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("storage %d partition %d offset %d\n", at.Storage, at.Partition, at.Offset)
	}
	// Output:
	// storage 0 partition 4 offset 0
	// storage 0 partition 4 offset 1
}
