package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// RegisterOptions refine Register.
type RegisterOptions struct {
	// Replace takes the member ID over from another incarnation that still lives in it, which is
	// fenced by that. A process that starts sets it when a restart should not wait for its
	// predecessor's session to end; one that comes back after it lost its session must not, or
	// two processes with the same ID throw each other out for ever.
	Replace bool
	// Restart makes the member static: its units wait for its next start that long, in whole
	// milliseconds, after it is gone.
	Restart time.Duration
}

// Register makes m a member of the group as long as session lives; again with the same
// incarnation it updates the entry. ErrExists when another incarnation holds the ID, ErrFenced
// when the session has ended, ErrNotFound when there is no such group. opts may be nil.
func (g *Group) Register(ctx context.Context, session Session, m Member, opts *RegisterOptions) (Version, error) {
	if opts == nil {
		opts = &RegisterOptions{}
	}
	if err := CheckID("member", m.ID); err != nil {
		return "", err
	}
	if m.Incarnation == "" {
		return "", fmt.Errorf("member %q needs an incarnation, unique for each start: %w", m.ID, ErrInvalid)
	}
	for {
		meta, metaEntry, err := g.meta(ctx)
		if err != nil {
			return "", err
		}
		if metaEntry.Version == "" || meta.Deleting {
			return "", fmt.Errorf("member %q of group %q: the group does not exist: %w", m.ID, g.name, ErrNotFound)
		}
		var holder Member
		e, err := g.r.read(ctx, g.MemberKey(m.ID), &holder)
		if err != nil {
			return "", err
		}
		if e.Version != "" && holder.Incarnation != m.Incarnation && !opts.Replace {
			return "", fmt.Errorf("member %q of group %q is registered by process %d on host %q (incarnation %s); give each process its own member ID: %w",
				m.ID, g.name, holder.PID, holder.Host, holder.Incarnation, ErrExists)
		}
		version, again, err := g.register(ctx, metaEntry, e, session, m, opts.Restart)
		if !again {
			return version, err
		}
	}
}

func (g *Group) register(ctx context.Context, meta, have Entry, session Session, m Member, restart time.Duration) (_ Version, again bool, _ error) {
	t := Txn{
		Checks: []Check{{Key: have.Key, Version: have.Version}, {Key: meta.Key, Version: meta.Version}},
		Puts:   []Put{{Key: have.Key, Value: Encode(m), Session: session.ID()}},
	}
	if m.Static {
		t.Puts = append(t.Puts, Put{Key: g.StaticKey(m.ID), Value: Encode(StaticMember{ID: m.ID, RestartMillis: restart.Milliseconds()})})
	}
	res, err := g.r.settle(ctx, t)
	if err != nil {
		return "", false, err
	}
	if !errors.Is(res.Err, ErrConflict) {
		if res.Err != nil {
			return "", false, res.Err
		}
		return res.Versions[0], false, nil
	}
	now, err := g.r.lookup(ctx, have.Key)
	if err != nil {
		return "", false, err
	}
	if now.Version != "" && now.Session == session.ID() && bytes.Equal(now.Value, t.Puts[0].Value) {
		return now.Version, false, nil // ours, the reply was lost
	}
	return "", true, nil
}

// Deregister removes the member entry of that incarnation; that it is gone already is no error.
// Units that it still owns count as expired from then on: release or hand them off before.
func (g *Group) Deregister(ctx context.Context, member, incarnation string) error {
	for {
		var m Member
		e, err := g.r.read(ctx, g.MemberKey(member), &m)
		if err != nil || e.Version == "" || m.Incarnation != incarnation {
			return err
		}
		res, err := g.r.settle(ctx, Txn{Checks: []Check{{Key: e.Key, Version: e.Version}}, Deletes: []string{e.Key}})
		if err != nil {
			return err
		}
		if !errors.Is(res.Err, ErrConflict) {
			return res.Err
		}
	}
}

// ForgetStatic ends the restart window of a static member for good.
func (g *Group) ForgetStatic(ctx context.Context, member string) error {
	_, err := g.r.Txn(ctx, Txn{Deletes: []string{g.StaticKey(member)}})
	return err
}

// ActiveMembers lists the members whose sessions live, by ID.
func (g *Group) ActiveMembers(ctx context.Context) ([]Member, error) {
	snap, err := g.r.List(ctx, g.WatchPrefix()+"members/")
	if err != nil {
		return nil, err
	}
	out := make([]Member, len(snap.Entries))
	for i, e := range snap.Entries {
		if err := decode(e, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
