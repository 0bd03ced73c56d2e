package protocol

import (
	"time"

	"github.com/ringfence/ringfence/registry"
)

// The protocol of groups is a handful of transactions, each built here and nowhere else: for the
// members (group/core), for measurements, and for tests. A builder is pure. The checks of a
// transaction make it safe, whatever its sender believed and however late it arrives:
//
//   - join and leave check the group's document or an entry that a deletion takes away, so that no
//     half of a group comes to be;
//   - a claim checks the owner that it follows, the checkpoint that it starts from, the claimer's own
//     entry, and that the dead stay dead;
//   - a commit and a handoff check the owner entry as it was granted, which is the fence, and the
//     checkpoint that they follow, so that a write that was given up can't come late and go back.
//
// Apply gives a result per transaction; its versions are in the order of the puts, and the index of a
// check that failed is in the order that each builder names.

// Join is a member's entry, and the state that it was decided on.
type Join struct {
	Member  Member
	Session string           // the ID of the session that bounds the entry's life
	Seen    registry.Version // of the member's entry; "": there was none
	Meta    registry.Version // of the group's document; "" with Found
	Found   *Meta            // the group's document, where there was none
	Restart time.Duration    // how long the units of a static member wait for its next start
	Also    []registry.Check // with Found: what the group may be founded under
}

// JoinTxn puts the member's entry, and founds the group if need be. Checks: the member's entry, the
// document, then Also. Puts: the member's entry, the document if it is founded, the note of a static member.
func (g *Group) JoinTxn(j Join) registry.Txn {
	t := registry.Txn{
		Checks: []registry.Check{{Key: g.MemberKey(j.Member.ID), Version: j.Seen}, {Key: g.MetaKey(), Version: j.Meta}},
		Puts:   []registry.Put{{Key: g.MemberKey(j.Member.ID), Value: registry.Encode(j.Member), Session: j.Session}},
	}
	if j.Found != nil {
		t.Puts, t.Checks = append(t.Puts, registry.Put{Key: g.MetaKey(), Value: registry.Encode(j.Found)}), append(t.Checks, j.Also...)
	}
	if !j.Member.Static {
		t.Deletes = []string{g.StaticKey(j.Member.ID)}
		return t
	}
	note := StaticMember{ID: j.Member.ID, RestartMillis: j.Restart.Milliseconds()}
	t.Puts = append(t.Puts, registry.Put{Key: g.StaticKey(j.Member.ID), Value: registry.Encode(note)})
	return t
}

// AnnounceTxn changes the entry of a member that has joined. Check and put: its entry.
func (g *Group) AnnounceTxn(m Member, session string, seen registry.Version) registry.Txn {
	key := g.MemberKey(m.ID)
	return registry.Txn{Checks: []registry.Check{{Key: key, Version: seen}}, Puts: []registry.Put{{Key: key, Value: registry.Encode(m), Session: session}}}
}

// WithdrawTxn removes the entry of a leaving member whose session goes on. Check: its entry.
func (g *Group) WithdrawTxn(member string, seen registry.Version) registry.Txn {
	key := g.MemberKey(member)
	return registry.Txn{Checks: []registry.Check{{Key: key, Version: seen}}, Deletes: []string{key}}
}

// ForgetTxn ends the restart window of a static member that has not come back. Checks: that it has no
// entry, the document.
func (g *Group) ForgetTxn(member string, meta registry.Version) registry.Txn {
	return registry.Txn{
		Checks:  []registry.Check{{Key: g.MemberKey(member)}, {Key: g.MetaKey(), Version: meta}},
		Deletes: []string{g.StaticKey(member)},
	}
}

// PlanTxn stores an assignment in the place of the one of version last. Checks: the assignment, the
// document. Put: the assignment. Its value may be too large: see MaxValueBytes.
func (g *Group) PlanTxn(a Assignment, last, meta registry.Version) registry.Txn {
	key := g.AssignmentKey()
	return registry.Txn{
		Checks: []registry.Check{{Key: key, Version: last}, {Key: g.MetaKey(), Version: meta}},
		Puts:   []registry.Put{{Key: key, Value: registry.Encode(a)}},
	}
}

// MetaTxn changes the group's document, if the checks that it was decided on hold too. Checks: the
// document, then also. Put: the document.
func (g *Group) MetaTxn(m Meta, last registry.Version, also ...registry.Check) registry.Txn {
	return registry.Txn{
		Checks: append([]registry.Check{{Key: g.MetaKey(), Version: last}}, also...),
		Puts:   []registry.Put{{Key: g.MetaKey(), Value: registry.Encode(m)}},
	}
}

// Claim is a unit without an owner, with a dead one, or with one whose time is over, and the state
// that it was decided on.
type Claim struct {
	Unit       int
	Owner      Owner            // the next one, in an epoch above the last
	Last       registry.Version // of the owner entry; "": it never had one
	Checkpoint registry.Version // of the checkpoint to start from; "": there is none
	Self       registry.Version // of the claimer's member entry
	// Dead is the member that must still be as it was seen, with DeadVersion ("": gone), for the unit
	// to be free; "" when it is free anyway, or taken from an owner that may live.
	Dead        string
	DeadVersion registry.Version
}

// ClaimTxn makes the claimer the owner. Checks: the owner, the checkpoint, the claimer's entry, that
// of the dead. Put: the owner.
func (g *Group) ClaimTxn(c Claim) registry.Txn {
	t := registry.Txn{
		Checks: []registry.Check{
			{Key: g.OwnerKey(c.Unit), Version: c.Last},
			{Key: g.CheckpointKey(c.Unit), Version: c.Checkpoint},
			{Key: g.MemberKey(c.Owner.Member), Version: c.Self},
		},
		Puts: []registry.Put{{Key: g.OwnerKey(c.Unit), Value: registry.Encode(c.Owner)}},
	}
	if c.Dead != "" && c.Dead != c.Owner.Member {
		t.Checks = append(t.Checks, registry.Check{Key: g.MemberKey(c.Dead), Version: c.DeadVersion})
	}
	return t
}

// Handoff is a unit that its owner gives away.
type Handoff struct {
	Grant  Grant            // by which it is owned until then
	Owner  Owner            // the next one, in an epoch above the grant's; without Member: none
	Target registry.Version // of the next owner's member entry
	After  registry.Version // of the checkpoint that is stored; "": none
	Last   *Checkpoint      // the final one; nil leaves what is stored
}

// HandoffTxn changes the owner and stores the last checkpoint in one write, so that there is no moment
// without an owner and nothing is repeated. Checks: the owner, the checkpoint, the next owner's member
// entry if there is one. Puts: the checkpoint if there is one, the owner.
func (g *Group) HandoffTxn(h Handoff) registry.Txn {
	t := registry.Txn{Checks: []registry.Check{
		{Key: g.OwnerKey(h.Grant.Unit), Version: h.Grant.Version},
		{Key: g.CheckpointKey(h.Grant.Unit), Version: h.After},
	}}
	if h.Owner.Member != "" {
		t.Checks = append(t.Checks, registry.Check{Key: g.MemberKey(h.Owner.Member), Version: h.Target})
	}
	if h.Last != nil {
		t.Puts = append(t.Puts, g.putCheckpoint(h.Grant, *h.Last))
	}
	t.Puts = append(t.Puts, registry.Put{Key: g.OwnerKey(h.Grant.Unit), Value: registry.Encode(h.Owner)})
	return t
}

// CommitTxn stores a checkpoint under a grant, in the place of the one of version after ("": the
// first). It sends no notification. Checks: the owner, the checkpoint. Put: the checkpoint. The second check keeps
// a late write of the same owner from putting the checkpoint back; the first refuses every other owner.
func (g *Group) CommitTxn(grant Grant, c Checkpoint, after registry.Version) registry.Txn {
	put := g.putCheckpoint(grant, c)
	return registry.Txn{
		Checks: []registry.Check{{Key: g.OwnerKey(grant.Unit), Version: grant.Version}, {Key: put.Key, Version: after}},
		Puts:   []registry.Put{put},
		Quiet:  true,
	}
}

// putCheckpoint gives the checkpoint the grant's epoch, even if an earlier owner made the progress and
// the store has lost it. A checkpoint that is too large loses first what is for people, then the finished
// ranges and the failing records: their work may be repeated, but the checkpoint moves.
func (g *Group) putCheckpoint(grant Grant, c Checkpoint) registry.Put {
	c.Epoch = grant.Epoch
	value := c.Encode()
	if len(value) > registry.MaxValueBytes && c.Deliveries != nil {
		c.Deliveries = nil
		value = c.Encode()
	}
	if len(value) > registry.MaxValueBytes {
		bare := make([]Position, len(c.Positions))
		for i, p := range c.Positions {
			p.Done, p.Failing, p.Top = nil, nil, Stamp{}
			bare[i] = p
		}
		c.Positions = bare
		value = c.Encode()
	}
	return registry.Put{Key: g.CheckpointKey(grant.Unit), Value: value}
}
