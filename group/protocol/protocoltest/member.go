package protocoltest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// Member is a member of a group that a test moves by hand. It sends the transactions that the members of
// group/core send, each once, after reading the state that each depends on.
type Member struct {
	Group           *protocol.Group
	ID, Incarnation string
	Session         registry.Session
}

// Join makes a member of m, and replaces one that has its ID.
func Join(ctx context.Context, g *protocol.Group, s registry.Session, m protocol.Member) (*Member, error) {
	st, err := g.Load(ctx, false)
	if err != nil {
		return nil, err
	}
	if st.Meta == nil {
		return nil, fmt.Errorf("group %q: %w", g.Name(), registry.ErrNotFound)
	}
	_, seen, _ := st.Member(m.ID)
	_, err = g.Registry().Txn(ctx, g.JoinTxn(protocol.Join{Member: m, Session: s.ID(), Seen: seen, Meta: st.MetaVersion, Restart: time.Minute}))
	return &Member{Group: g, ID: m.ID, Incarnation: m.Incarnation, Session: s}, err
}

// Claim takes a unit without an owner, or whose owner is gone. ErrConflict when its owner lives.
func (m *Member) Claim(ctx context.Context, unit int, reason string) (protocol.Grant, error) {
	return m.claim(ctx, unit, reason, false)
}

// Seize takes a unit from any owner.
func (m *Member) Seize(ctx context.Context, unit int, reason string) (protocol.Grant, error) {
	return m.claim(ctx, unit, reason, true)
}

func (m *Member) claim(ctx context.Context, unit int, reason string, seize bool) (protocol.Grant, error) {
	st, err := m.Group.Load(ctx, true)
	if err != nil {
		return protocol.Grant{}, err
	}
	u := &st.Units[unit]
	_, self, ok := st.Member(m.ID)
	if !ok {
		return protocol.Grant{}, fmt.Errorf("member %q is gone: %w", m.ID, registry.ErrFenced)
	}
	c := protocol.Claim{Unit: unit, Last: u.OwnerVersion, Checkpoint: u.CheckpointVersion, Self: self, Owner: protocol.Owner{
		Member: m.ID, Incarnation: m.Incarnation, Epoch: protocol.NextEpoch(u.Owner.Epoch, st.Time), After: u.Owner.Epoch,
		Reason: reason, Since: st.Time,
	}}
	if !seize {
		if st.Alive(u.Owner) {
			return protocol.Grant{}, fmt.Errorf("unit %d is owned by %q, which lives: %w", unit, u.Owner.Member, registry.ErrConflict)
		}
		c.Dead = u.Owner.Member
		_, c.DeadVersion, _ = st.Member(c.Dead)
	}
	versions, err := m.Group.Registry().Txn(ctx, m.Group.ClaimTxn(c))
	if err != nil {
		return protocol.Grant{}, err
	}
	return protocol.Grant{Unit: unit, Epoch: c.Owner.Epoch, Version: versions[0]}, nil
}

// Commit stores where a reader of partition 0 of storage topic 0 goes on, in the place of what is stored.
// ErrFenced when the grant is over.
func (m *Member) Commit(ctx context.Context, grant protocol.Grant, next int64) error {
	u, err := m.Group.Unit(ctx, grant.Unit)
	if err != nil {
		return err
	}
	return m.Group.Commit(ctx, grant, At(next), u.CheckpointVersion)
}

// Handoff gives a unit to another member, or leaves it without one when to is nil, with the last
// checkpoint as of Commit. ErrFenced when the grant is over.
func (m *Member) Handoff(ctx context.Context, grant protocol.Grant, next int64, to *Member, reason string) error {
	st, err := m.Group.Load(ctx, true)
	if err != nil {
		return err
	}
	last := At(next)
	last.Member = m.ID
	h := protocol.Handoff{Grant: grant, After: st.Units[grant.Unit].CheckpointVersion, Last: &last, Owner: protocol.Owner{
		Epoch: protocol.NextEpoch(grant.Epoch, st.Time), After: grant.Epoch, Reason: reason, Since: st.Time,
	}}
	if to != nil {
		h.Owner.Member, h.Owner.Incarnation = to.ID, to.Incarnation
		_, h.Target, _ = st.Member(to.ID)
		if h.Target == "" {
			return fmt.Errorf("member %q is gone: %w", to.ID, registry.ErrNotFound)
		}
	}
	res, err := m.Group.Registry().Apply(ctx, []registry.Txn{m.Group.HandoffTxn(h)})
	if err != nil {
		return err
	}
	if errors.Is(res[0].Err, registry.ErrConflict) && res[0].Failed == 0 {
		return fmt.Errorf("epoch %d of unit %d is over: %w", grant.Epoch, grant.Unit, registry.ErrFenced)
	}
	return res[0].Err
}

// At is the checkpoint of a reader that goes on at an offset of partition 0 of storage topic 0.
func At(next int64) protocol.Checkpoint {
	return protocol.Checkpoint{Positions: []protocol.Position{{Next: next}}}
}
