package group_test

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// A worker takes a unit from its checkpoint, tells how far it got, and comes to an end when asked.
func ExampleRun() {
	store := memregistry.NewStore()
	var leave context.CancelFunc
	worker := group.WorkerFunc(func(ctx context.Context, u *group.Unit) error {
		next := int64(0)
		if c := u.Checkpoint(); c != nil {
			next = c.Positions[0].Next
		}
		u.Track(func() group.Progress {
			return group.Progress{Positions: []registry.Position{{Partition: u.Number(), Next: next + 3}}}
		})
		fmt.Printf("unit %d, epoch %d, from %d\n", u.Number(), u.Epoch(), next)
		leave() // as SIGTERM would
		<-u.Draining()
		return nil
	})
	for _, member := range []string{"a", "b"} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		leave = cancel
		err := group.Run(ctx, group.Config{
			Registry: store.Open().Registry, Group: "billing", Topic: "payments", Units: 1, Member: member,
		}, worker)
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// unit 0, epoch 1, from 0
	// unit 0, epoch 3, from 3
}
