package ring

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/registry"
)

// The store decides which start of a member ID is the newest: each announces itself, bound to its
// session, in the place of the one before. A start that finds another one there is over, and can't
// come back: only its first announcement replaces others, and it enters the ring under a check of
// its announcement.

// announcement is a start of this member that is the newest one the store has reported.
type announcement struct {
	session registry.Session
	version registry.Version // of its entry
}

// announce opens a session and says that this start is the newest; before says that it has been,
// under a session that ended. ErrFenced when another start is newer.
func (r *Ring) announce(ctx context.Context, before bool) (announcement, error) {
	s, err := r.cfg.Registry.OpenSession(ctx, r.cfg.TTL)
	if err != nil {
		return announcement{}, err
	}
	version, err := r.tell(ctx, s, before)
	if err != nil {
		bounded, cancel := r.bound(context.WithoutCancel(ctx))
		defer cancel()
		_ = s.Close(bounded) // if this fails it expires
		return announcement{}, err
	}
	return announcement{s, version}, nil
}

// tell writes the announcement. A lost reply may be to a write that was applied and replaced since:
// another start that was not there before that try is newer then.
func (r *Ring) tell(ctx context.Context, s registry.Session, before bool) (registry.Version, error) {
	key := r.keys.start(r.cfg.Member)
	lost, base := false, registry.Version("")
	for {
		e, err := r.cfg.Registry.Get(ctx, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return "", err
		}
		if err == nil {
			var there memberDoc
			if err := decode(e, &there); err != nil {
				return "", err
			}
			switch own := there.Incarnation == r.cfg.Incarnation; {
			case own && e.Session == s.ID():
				return e.Version, nil
			case !own && (before || lost && e.Version != base):
				return "", r.replaced(there)
			}
		}
		versions, err := r.cfg.Registry.Txn(ctx, registry.Txn{
			Checks: []registry.Check{{Key: key, Version: e.Version}},
			Puts:   []registry.Put{{Key: key, Value: registry.Encode(r.me), Session: s.ID()}},
			Quiet:  r.meta.Mode == Anchor, // a replaced start sees it when this one enters
		})
		switch {
		case err == nil:
			return versions[0], nil
		case errors.Is(err, registry.ErrFenced):
			return "", fmt.Errorf("ring %q: the session of member %q ended while it began: %w", r.cfg.Name, r.cfg.Member, ErrUnavailable)
		case errors.Is(err, registry.ErrUnknown):
			lost, base = true, e.Version
		case !errors.Is(err, registry.ErrConflict):
			return "", err
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
}

// replaced is why this start is over.
func (r *Ring) replaced(by memberDoc) error {
	return fmt.Errorf("ring %q: member %q was started again, as process %d on host %q: %w", r.cfg.Name, r.cfg.Member, by.PID, by.Host, ErrFenced)
}
