package registrytest_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

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

// silentEnds drops the signals that come when a session was just closed.
func silentEnds(r driver.Registry) driver.Registry {
	w := wrapped{Registry: r}
	w.watch = func(ctx context.Context, prefix string) (<-chan struct{}, error) {
		return forward(ctx, r, prefix, 1, func() bool { return !muted.Load() })
	}
	w.sessions = func(x driver.Session) driver.Session {
		return wrappedSession{Session: x, close: func(ctx context.Context) error {
			muted.Store(true)
			return x.Close(ctx)
		}}
	}
	return w
}

// muted is of all processes of a store, as is queued.
var muted atomic.Bool

// hasty has the watchers told, and only then changes something.
func hasty(r driver.Registry) driver.Registry {
	return apart(r, func(ctx context.Context, t driver.Txn) (driver.Result, error) {
		if t.Quiet || len(t.Puts) == 0 {
			return one(ctx, r, t)
		}
		again := driver.Txn{Deletes: []string{t.Puts[0].Key + " told"}}
		if _, err := one(ctx, r, again); err != nil {
			return driver.Result{}, err
		}
		pause(2 * time.Millisecond)
		t.Quiet = true
		return one(ctx, r, t)
	})
}
