package registry

import (
	"context"
	"errors"
	"fmt"
)

// resolveTries bounds how often one call sends a transaction whose outcome stays unknown.
const resolveTries = 3

// Resolve applies t, and again while its outcome is unknown because the store's answer was lost. That is
// safe for a transaction that checks a key which it also changes: it takes effect at most once. retried
// says that an answer was lost: a conflict may then be with t itself, so the caller reads the entry and
// recognizes its own write by its content. The result's error is ErrUnknown only when the store stayed
// silent; calling again with the same arguments then gives the outcome.
func (r *Registry) Resolve(ctx context.Context, t Txn) (_ Result, retried bool, _ error) {
	for try := 1; ; try++ {
		res, err := r.Apply(ctx, []Txn{t})
		switch {
		case err != nil && retried:
			return Result{}, retried, fmt.Errorf("%w; then: %w", ErrUnknown, err)
		case err != nil:
			return Result{}, retried, err
		case !errors.Is(res[0].Err, ErrUnknown) || try == resolveTries:
			return res[0], retried, nil
		}
		retried = true
	}
}

// Lookup is Get that returns an Entry of version "" for an absent key.
func (r *Registry) Lookup(ctx context.Context, key string) (Entry, error) {
	e, err := r.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Entry{Key: key}, nil
	}
	return e, err
}
