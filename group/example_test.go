package group_test

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// A worker takes a unit from its checkpoint, tells how far it got, and comes to an end when asked.
func ExampleRun() {
	store := memregistry.NewStore()
	var leave context.CancelFunc
	last := int64(0)
	worker := group.WorkerFunc(func(ctx context.Context, u *group.Unit) error {
		next := int64(0)
		if c := u.Checkpoint(); c != nil {
			next = c.Positions[0].Next
		}
		u.Track(func() group.Progress {
			return group.Progress{Positions: []protocol.Position{{Partition: u.Number(), Next: next + 3}}}
		})
		fmt.Printf("unit %d from %d, in a new epoch: %t\n", u.Number(), next, u.Epoch() > last)
		last = u.Epoch()
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
	// unit 0 from 0, in a new epoch: true
	// unit 0 from 3, in a new epoch: true
}
