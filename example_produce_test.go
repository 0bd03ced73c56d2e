package ringfence_test

import (
	"context"
	"fmt"
	"log"
	"sync"

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

// ProduceAsync keeps many messages under way: they share one write and one sync.
func ExampleClient_ProduceAsync() {
	ctx := context.Background()
	rf, err := ringfence.Open(ctx, ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		log.Fatal(err)
	}
	defer rf.Close()
	if err := rf.EnsureTopic(ctx, "events", ringfence.TopicConfig{Partitions: 1}); err != nil {
		log.Fatal(err)
	}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		last int64
	)
	for i := range 1000 {
		wg.Add(1)
		m := ringfence.Message{Key: []byte("k"), Value: fmt.Append(nil, i)}
		rf.ProduceAsync(ctx, "events", m, nil, func(at ringfence.Position, err error) {
			defer wg.Done()
			if err != nil {
				log.Print(err)
				return
			}
			mu.Lock()
			last = max(last, at.Offset)
			mu.Unlock()
		})
	}
	wg.Wait()
	fmt.Println("last offset", last)
	// Output: last offset 999
}
