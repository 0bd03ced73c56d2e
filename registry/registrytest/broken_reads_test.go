package registrytest_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
)

func stale(r driver.Registry) driver.Registry {
	var mu sync.Mutex
	seen := map[string]driver.Snapshot{}
	return wrapped{Registry: r, list: func(ctx context.Context, prefix string) (driver.Snapshot, error) {
		snap, err := r.List(ctx, prefix)
		mu.Lock()
		defer mu.Unlock()
		old, ok := seen[prefix]
		seen[prefix] = snap
		if ok {
			return old, err
		}
		return snap, err
	}}
}

func quietLater(r driver.Registry) driver.Registry {
	return apart(r, func(ctx context.Context, t driver.Txn) (driver.Result, error) {
		if !t.Quiet {
			return one(ctx, r, t)
		}
		time.AfterFunc(20*time.Millisecond, func() { _, _ = one(context.WithoutCancel(ctx), r, t) })
		return driver.Result{Versions: make([]driver.Version, len(t.Puts))}, nil
	})
}

func listed(f func([]driver.Entry) []driver.Entry) func(driver.Registry) driver.Registry {
	return func(r driver.Registry) driver.Registry {
		return wrapped{Registry: r, list: func(ctx context.Context, prefix string) (driver.Snapshot, error) {
			snap, err := r.List(ctx, prefix)
			snap.Entries = f(snap.Entries)
			return snap, err
		}}
	}
}

func values(f func([]byte) []byte) func(driver.Registry) driver.Registry {
	return each(func(t *driver.Txn) {
		for i := range t.Puts {
			t.Puts[i].Value = f(t.Puts[i].Value)
		}
	})
}

func foldCase(r driver.Registry) driver.Registry {
	return wrapped{Registry: r, list: func(ctx context.Context, prefix string) (driver.Snapshot, error) {
		snap, err := r.List(ctx, "")
		snap.Entries = slices.DeleteFunc(snap.Entries, func(e driver.Entry) bool {
			return !strings.HasPrefix(strings.ToLower(e.Key), strings.ToLower(prefix))
		})
		return snap, err
	}}
}

func share(r driver.Registry) driver.Registry {
	var mu sync.Mutex
	memory := map[string][]byte{}
	return wrapped{Registry: r, list: func(ctx context.Context, prefix string) (driver.Snapshot, error) {
		snap, err := r.List(ctx, prefix)
		mu.Lock()
		defer mu.Unlock()
		for i, e := range snap.Entries {
			snap.Entries[i].Value = memory[e.Key]
		}
		return snap, err
	}, apply: func(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
		mu.Lock()
		for _, t := range txns {
			for _, p := range t.Puts {
				memory[p.Key] = p.Value
			}
		}
		mu.Unlock()
		return r.Apply(ctx, txns)
	}}
}

func empties(r driver.Registry) driver.Registry {
	ctx := context.Background()
	pause(rand.N(5 * time.Millisecond))
	if snap, err := r.List(ctx, ""); err == nil {
		for _, e := range snap.Entries {
			_, _ = one(ctx, r, driver.Txn{Deletes: []string{e.Key}})
		}
	}
	return r
}
