package compare

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/bench/peer"
)

const (
	frontTopic = "bench"
	frontGroup = "readers"
)

// openFrontDoor opens a client and its topic of one partition.
func openFrontDoor(ctx context.Context, j job) (*ringfence.Client, error) {
	level := ringfence.OS
	if j.Durability == peer.Sync {
		level = ringfence.Sync
	}
	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: j.Dir, Durability: level})
	if err != nil {
		return nil, err
	}
	if err := rf.EnsureTopic(ctx, frontTopic, ringfence.TopicConfig{Partitions: 1}); err != nil {
		return nil, errors.Join(err, rf.Close())
	}
	return rf, nil
}

// consumeFrontDoor consumes as a member of a group, with checkpoints and order per key. A record
// of its own, produced before, tells when it owns the partition.
func consumeFrontDoor(ctx context.Context, j job, w *stopwatch, say func(answer) error) (err error) {
	rf, err := openFrontDoor(ctx, j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	if _, err := rf.Produce(ctx, frontTopic, ringfence.Message{Value: []byte("?")}); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var said atomic.Bool
	return rf.Consume(ctx, frontTopic, frontGroup, func(_ context.Context, m *ringfence.Message) error {
		switch {
		case len(m.Value) == 1 && said.CompareAndSwap(false, true):
			return say(answer{Ready: true})
		case len(m.Value) > 1 && w.arrive(m.Value):
			stop()
		}
		return nil
	}, &ringfence.ConsumeOptions{Concurrency: 1})
}
