package registrytest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// along ends all sessions of a process with the first.
func along(r driver.Registry) driver.Registry {
	var mu sync.Mutex
	var open []driver.Session
	return wrapped{Registry: r, sessions: func(x driver.Session) driver.Session {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, x)
		return wrappedSession{Session: x, close: func(ctx context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			var errs []error
			for _, x := range open {
				errs = append(errs, x.Close(ctx))
			}
			return errors.Join(errs...)
		}}
	}}
}

func opening(f func(driver.Session) driver.Session) func(driver.Registry) driver.Registry {
	return func(r driver.Registry) driver.Registry { return wrapped{Registry: r, sessions: f} }
}

// fromTheAnswer adds to each deadline what has passed until the answer came.
func fromTheAnswer(r driver.Registry) driver.Registry {
	return wrapped{Registry: r, sessions: func(x driver.Session) driver.Session {
		ttl := 2 * time.Second // of the case
		answered := time.Now()
		return wrappedSession{Session: x, deadline: func() time.Time {
			if end := x.Deadline(); end.After(answered.Add(ttl)) {
				return end
			}
			return answered.Add(ttl)
		}}
	}}
}

// afterFence does a part of what was fenced.
func afterFence(part func(*driver.Txn)) func(driver.Registry) driver.Registry {
	return func(r driver.Registry) driver.Registry {
		return apart(r, func(ctx context.Context, t driver.Txn) (driver.Result, error) {
			res, err := one(ctx, r, t)
			if err != nil || !errors.Is(res.Err, registry.ErrFenced) {
				return res, err
			}
			again := changed([]driver.Txn{t}, part)[0]
			done, err := one(ctx, r, again)
			if len(again.Puts) == len(t.Puts) {
				return done, err
			}
			return res, err
		})
	}
}

func firstBinding(r driver.Registry) driver.Registry {
	return wrapped{Registry: r, apply: func(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
		snap, err := r.List(ctx, "")
		if err != nil {
			return nil, err
		}
		return r.Apply(ctx, changed(txns, func(t *driver.Txn) {
			for i, p := range t.Puts {
				for _, e := range snap.Entries {
					if e.Key == p.Key && e.Session != "" {
						t.Puts[i].Session = e.Session
					}
				}
			}
		}))
	}}
}

func staysOpen(r driver.Registry) driver.Registry {
	return wrapped{Registry: r, close: func() error { return nil }}
}

// sent does what was given up, and says something else.
func sent(says error) func(driver.Registry) driver.Registry {
	return func(r driver.Registry) driver.Registry {
		return wrapped{Registry: r, apply: func(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
			res, err := r.Apply(context.WithoutCancel(ctx), txns)
			if ctx.Err() != nil {
				return nil, fmt.Errorf("%w: %w", says, ctx.Err())
			}
			return res, err
		}}
	}
}

func acknowledged(r driver.Registry) driver.Registry {
	return wrapped{Registry: r, apply: func(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
		res, err := r.Apply(ctx, txns)
		if errors.Is(err, context.DeadlineExceeded) {
			return make([]driver.Result, len(txns)), nil
		}
		return res, err
	}}
}
