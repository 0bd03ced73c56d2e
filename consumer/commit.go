package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
)

// Commitment is one attempt at a record whose handler stores the checkpoint itself, in a transaction of its
// own.
//
// A record counts as done when its handler returned nil after a write into a transaction, which it has then
// committed, or when the store says that an earlier attempt has committed it. A second call of In in one
// attempt may meet the write of the first one, not yet committed: it counts for nothing.
type Commitment struct {
	group    *protocol.Group
	grant    protocol.Grant
	member   string
	finished protocol.Finished
	called   bool // in this attempt, with a transaction
	written  bool // into a transaction of this attempt
	before   bool // by a transaction of an earlier attempt
}

// NewCommitment returns that of a record in a unit.
func NewCommitment(g *protocol.Group, u *group.Unit, r *dispatch.Record) *Commitment {
	return &Commitment{group: g, grant: u.Grant(), member: u.Member(), finished: protocol.Finished{
		Storage: r.Storage, Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp, From: r.From, To: r.To, Start: r.Start,
	}}
}

// In writes the checkpoint inside tx, a transaction of the caller's on the database that holds the registry.
// fault.Fenced when the unit has another owner, fault.Exists when it was written before.
func (c *Commitment) In(ctx context.Context, tx any) error {
	err := c.group.FinishIn(ctx, tx, c.grant, c.member, c.finished)
	// Only the first call can't have met a write of this attempt, whatever its result.
	if c.called && errors.Is(err, fault.Exists) {
		return fmt.Errorf("CommitIn was called before while this message was handled; call it once, as the last statement of its transaction: %w", err)
	}
	c.called = c.called || !errors.Is(err, fault.Invalid)
	c.written, c.before = c.written || err == nil, c.before || errors.Is(err, fault.Exists)
	return err
}

// Outcome is the result for the record when its handler has returned err.
func (c *Commitment) Outcome(err error) error {
	switch {
	case c.before:
		return nil
	case err == nil && !c.written:
		return fmt.Errorf("the handler returned nil without Message.CommitIn, which ConsumeOptions.Transactional asks for: nothing was stored: %w", fault.Invalid)
	}
	return err
}
