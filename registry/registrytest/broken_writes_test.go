package registrytest_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
)

// each changes each transaction.
func each(f func(*driver.Txn)) func(driver.Registry) driver.Registry {
	return func(r driver.Registry) driver.Registry {
		return wrapped{Registry: r, apply: func(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
			return r.Apply(ctx, changed(txns, f))
		}}
	}
}

// changed is a copy of transactions with a change.
func changed(txns []driver.Txn, f func(*driver.Txn)) []driver.Txn {
	out := make([]driver.Txn, len(txns))
	for i, t := range txns {
		t.Checks, t.Puts, t.Deletes = slices.Clone(t.Checks), slices.Clone(t.Puts), slices.Clone(t.Deletes)
		f(&t)
		out[i] = t
	}
	return out
}

func answers(f func(*driver.Result)) func(driver.Registry) driver.Registry {
	return func(r driver.Registry) driver.Registry {
		return wrapped{Registry: r, apply: func(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
			res, err := r.Apply(ctx, txns)
			for i := range res {
				f(&res[i])
			}
			return res, err
		}}
	}
}

// before applies a part of each transaction unchecked, and then all of it.
func before(part func(driver.Txn) driver.Txn) func(driver.Registry) driver.Registry {
	return func(r driver.Registry) driver.Registry {
		return wrapped{Registry: r, apply: func(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
			for _, t := range txns {
				if _, err := r.Apply(ctx, []driver.Txn{part(t)}); err != nil {
					return nil, err
				}
			}
			return r.Apply(ctx, txns)
		}}
	}
}

// apart applies transactions one by one, by f.
func apart(r driver.Registry, f func(ctx context.Context, t driver.Txn) (driver.Result, error)) driver.Registry {
	return wrapped{Registry: r, apply: func(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
		var out []driver.Result
		for _, t := range txns {
			res, err := f(ctx, t)
			if err != nil {
				return nil, err
			}
			out = append(out, res)
		}
		return out, nil
	}}
}

func one(ctx context.Context, r driver.Registry, t driver.Txn) (driver.Result, error) {
	res, err := r.Apply(ctx, []driver.Txn{t})
	if err != nil {
		return driver.Result{}, err
	}
	return res[0], nil
}

// pause gives others a moment.
func pause(d time.Duration) { <-time.After(d) }

func tear(r driver.Registry) driver.Registry {
	return apart(r, func(ctx context.Context, t driver.Txn) (driver.Result, error) {
		head, tail := t, driver.Txn{Quiet: t.Quiet}
		head.Puts, tail.Puts = t.Puts[:min(1, len(t.Puts))], t.Puts[min(1, len(t.Puts)):]
		res, err := one(ctx, r, head)
		if err != nil || res.Err != nil || len(tail.Puts) == 0 {
			return res, err
		}
		pause(time.Millisecond)
		rest, err := one(ctx, r, tail)
		return driver.Result{Versions: append(res.Versions, rest.Versions...)}, err
	})
}

func backwards(r driver.Registry) driver.Registry {
	return wrapped{Registry: r, apply: func(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
		turned := slices.Clone(txns)
		slices.Reverse(turned)
		res, err := r.Apply(ctx, turned)
		slices.Reverse(res)
		return res, err
	}}
}

// digest is a version that says what is there, not that it was written anew.
func digest(key string, value []byte) driver.Version {
	return driver.Version(fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, key, "=", value))))
}

func digests(r driver.Registry) driver.Registry {
	return wrapped{Registry: r, list: func(ctx context.Context, prefix string) (driver.Snapshot, error) {
		snap, err := r.List(ctx, prefix)
		for i, e := range snap.Entries {
			snap.Entries[i].Version = digest(e.Key, e.Value)
		}
		return snap, err
	}, apply: func(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
		res, err := r.Apply(ctx, txns) // whose checks are not of interest here
		for i := range res {
			for j := range res[i].Versions {
				res[i].Versions[j] = digest(txns[i].Puts[j].Key, txns[i].Puts[j].Value)
			}
		}
		return res, err
	}}
}

// late looks at the checks, and writes a moment later.
func late(r driver.Registry) driver.Registry {
	return apart(r, func(ctx context.Context, t driver.Txn) (driver.Result, error) {
		res, err := one(ctx, r, driver.Txn{Checks: t.Checks})
		if err != nil || res.Err != nil {
			return res, err
		}
		pause(time.Millisecond)
		return one(ctx, r, driver.Txn{Puts: t.Puts, Deletes: t.Deletes, Quiet: t.Quiet})
	})
}
