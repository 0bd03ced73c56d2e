package registry

import (
	"context"
	"errors"
	"fmt"
)

// How an unknown outcome is resolved. A store may lose the reply to a transaction. Every
// transaction of this package checks a key that it also changes, so sending it again is safe: it
// takes effect at most once. When the second try meets a conflict, either the first was applied
// or somebody else won; the operation then reads the entry again and recognises its own write by
// its content (member, incarnation, epoch), which nobody else writes. When the store stays
// silent, the caller gets ErrUnknown, and calling the operation again with the same arguments
// gives the outcome.

// settleTries bounds how often one call sends a transaction whose outcome stays unknown.
const settleTries = 3

// settle applies t, again while its outcome is unknown. The result's error is ErrUnknown only
// when the store stayed silent.
func (r *Registry) settle(ctx context.Context, t Txn) (Result, error) {
	res, _, err := r.settled(ctx, t)
	return res, err
}

// settled is settle that says whether a reply was lost: after that a conflict may be with t itself.
func (r *Registry) settled(ctx context.Context, t Txn) (_ Result, unknown bool, _ error) {
	for try := 1; ; try++ {
		res, err := r.Apply(ctx, []Txn{t})
		switch {
		case err != nil && unknown:
			return Result{}, unknown, fmt.Errorf("%w; then: %w", ErrUnknown, err)
		case err != nil:
			return Result{}, unknown, err
		case !errors.Is(res[0].Err, ErrUnknown) || try == settleTries:
			return res[0], unknown, nil
		}
		unknown = true
	}
}

// lookup is Get that gives a zero Entry, of version "", for an absent key.
func (r *Registry) lookup(ctx context.Context, key string) (Entry, error) {
	e, err := r.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Entry{Key: key}, nil
	}
	return e, err
}

// read looks a document up; doc is untouched when it is absent.
func (r *Registry) read(ctx context.Context, key string, doc any) (Entry, error) {
	e, err := r.lookup(ctx, key)
	if err != nil || e.Version == "" {
		return e, err
	}
	return e, decode(e, doc)
}
