package registrytest_test

import (
	"context"
	"sync"

	"github.com/ringfence/ringfence/registry/driver"
)

func watching(f func(context.Context, driver.Registry, string) (<-chan struct{}, error)) func(driver.Registry) driver.Registry {
	return func(r driver.Registry) driver.Registry {
		return wrapped{Registry: r, watch: func(ctx context.Context, prefix string) (<-chan struct{}, error) { return f(ctx, r, prefix) }}
	}
}

// queues has each write of any process signalled to every watch.
func queues(r driver.Registry) driver.Registry {
	return wrapped{Registry: r, watch: func(context.Context, string) (<-chan struct{}, error) {
		ch := make(chan struct{}, 1000)
		queued.Lock()
		defer queued.Unlock()
		queued.watches = append(queued.watches, ch)
		return ch, nil
	}, apply: func(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
		res, err := r.Apply(ctx, txns)
		queued.Lock()
		defer queued.Unlock()
		for _, ch := range queued.watches {
			ch <- struct{}{}
		}
		return res, err
	}}
}

// queued is of all processes of a store: each broken registry has a test process of its own.
var queued struct {
	sync.Mutex
	watches []chan struct{}
}

// forward passes signals on over a channel of its own.
func forward(ctx context.Context, r driver.Registry, prefix string, capacity int, wanted func() bool) (<-chan struct{}, error) {
	in, err := r.Watch(ctx, prefix)
	out := make(chan struct{}, capacity)
	go func() { // ends with the watch
		defer close(out)
		for range in {
			if !wanted() {
				continue
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out, err
}
