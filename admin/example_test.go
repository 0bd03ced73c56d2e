package admin_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// A group can be looked at, and sent elsewhere, whether or not a member of it runs.
func ExampleClient_SeekGroup() {
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
	for range 3 {
		if _, err := rf.Produce(ctx, "payments", ringfence.Message{Key: []byte("acct-42")}); err != nil {
			log.Fatal(err)
		}
	}
	running, stop := context.WithCancel(ctx)
	err = rf.Consume(running, "payments", "billing", func(_ context.Context, m *ringfence.Message) error {
		if m.Offset == 2 {
			stop()
		}
		return nil
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	show := func() {
		info, err := rf.Admin().DescribeGroup(context.Background(), "billing")
		if err != nil {
			log.Fatal(err)
		}
		u := info.Units[0]
		fmt.Printf("checkpoint %d, lag %d, %s\n", u.Positions[0].Checkpoint, u.Lag, u.Phase)
	}
	show()
	if _, err := rf.Admin().SeekGroup(context.Background(), "billing", ringfence.SeekOffset(1), &admin.SeekGroupOptions{Partitions: []int{0}}); err != nil {
		log.Fatal(err)
	}
	show()
	// Output:
	// checkpoint 3, lag 0, unowned
	// checkpoint 1, lag 2, unowned
}
