package ringfence

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// commitment is what a message of a transactional consumer knows of its checkpoint.
type commitment struct {
	group    *registry.Group
	grant    registry.Grant
	member   string
	finished registry.Finished
	called   bool // in this attempt, with a transaction
	written  bool // into a transaction of this attempt
	before   bool // by a transaction of an earlier attempt
}

// CommitIn writes the checkpoint of m inside tx, a transaction of the caller's on the database
// that holds the registry: a pgx.Tx for postgres:, a *sql.Tx for mysql: and sqlite:. When tx
// commits, its effects and the checkpoint are stored together, each exactly once; when it does
// not, neither is. Use it as the last statement, because the partition's checkpoint stays locked
// until tx ends, commit, and return nil from the handler; return any error as it is and let tx roll back.
// The consumer must have ConsumeOptions.Transactional.
//
// Errors: ErrFenced when the partition is somebody else's by now. ErrExists when the record was
// committed before, by a transaction whose answer was lost; the record then counts as done,
// whatever the handler returns. A second call while one message is handled is ErrExists too, but
// then nothing counts as done: it may have met what the first one wrote and nobody has committed.
// Return it; the record is handled again, and finds out. ErrInvalid for a wrong tx.
func (m *Message) CommitIn(ctx context.Context, tx any) error {
	c := m.commit
	if c == nil {
		return fmt.Errorf("CommitIn: the message comes from no consumer with ConsumeOptions.Transactional: %w", ErrInvalid)
	}
	err := c.group.FinishIn(ctx, tx, c.grant, c.member, c.finished)
	// Only the first call can't have met a write of this attempt, whatever that was answered.
	if c.called && errors.Is(err, fault.Exists) {
		return fmt.Errorf("CommitIn was called before while this message was handled; call it once, as the last statement of its transaction: %w", err)
	}
	c.called = c.called || !errors.Is(err, fault.Invalid)
	c.written, c.before = c.written || err == nil, c.before || errors.Is(err, fault.Exists)
	return err
}

// demandCommit makes of h, which commits the checkpoints itself, a handler that fails when it has not.
func demandCommit(h Handler) Handler {
	return func(ctx context.Context, m *Message) error {
		err := h(ctx, m)
		switch {
		case m.commit.before:
			return nil
		case err == nil && !m.commit.written:
			return fmt.Errorf("the handler returned nil without Message.CommitIn, which ConsumeOptions.Transactional asks for: nothing was stored: %w", ErrInvalid)
		}
		return err
	}
}

// commitmentOf is what CommitIn needs to know of a record.
func commitmentOf(g *registry.Group, u *group.Unit, r *dispatch.Record) *commitment {
	return &commitment{group: g, grant: u.Grant(), member: u.Member(), finished: registry.Finished{
		Storage: r.Storage, Partition: r.Partition, Offset: r.Offset, From: r.From, To: r.To, Start: r.Start,
	}}
}
