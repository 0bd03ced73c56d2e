package shard

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/subscription/core"
)

// An order about dead letters goes through the journal, like all that lasts: it is a record that names dead letters,
// and the first order that names one has it. So two operators, or one command given twice, can't have a record
// delivered twice. Before the owner acts on an order it stores its outcome with the dead letters: that stays when the
// journal's beginning is dropped.

// note stores the outcome of an order with the dead letters, before it takes effect; false when that is over.
func (s *Shard) note(ctx context.Context, n *core.Note) bool {
	err := s.again(ctx, "note of an order", func() error {
		_, err := s.cfg.Dead.Append(ctx, s.cfg.Shard, []commitlog.Record{wrap(&n.Record, nil)}, nil)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			s.end(err)
		}
		return false
	}
	s.do(func(st *core.State) { st.Noted(*n) })
	return true
}

// edits reports whether r is an order with a new value for a record.
func edits(r *core.Record, of core.Origin) bool {
	return r.Kind == core.Order && r.Verb == core.Edit && r.IDs[0].Origin == of
}

// Ordered is an order about records of one shard.
type Ordered struct {
	Shard  int
	Verb   core.Verb
	IDs    []core.ID         // none: a retry of all of Key, or of all
	Key    []byte            // of an edit: that of its only dead letter, by which the key is ordered
	Edited *commitlog.Record // of an edit: the record to be delivered
}

// Order writes an order down; the owner of the shard carries it out. It returns the late ones: they were no longer as
// they were chosen when the order came, or an earlier order has them.
func (j *Journals) Order(ctx context.Context, o Ordered) (late []core.ID, _ error) {
	id := rand.Text()[:12]
	parts := slices.Collect(slices.Chunk(o.IDs, core.MaxIDs))
	if len(parts) == 0 && o.Verb == core.Retry {
		parts = [][]core.ID{nil}
	}
	for _, some := range parts {
		r := core.Record{Set: j.Set, Kind: core.Order, At: time.Now().UnixMilli(), Order: id, Verb: o.Verb, IDs: some, Key: o.Key}
		place, err := j.Journal.Append(ctx, o.Shard, []commitlog.Record{wrap(&r, o.Edited)}, nil)
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			continue
		}
		took, err := untrimmed(func() ([]core.ID, error) { return j.took(ctx, o.Shard, place, &r) })
		if err != nil {
			return nil, fmt.Errorf("the order is written down; whether it came in time is unknown: %w", err)
		}
		for _, id := range some {
			if !slices.Contains(took, id) {
				late = append(late, id)
			}
		}
	}
	return late, nil
}

// took returns the records that the order at a place took: only what lies before it decides that.
func (j *Journals) took(ctx context.Context, shard int, place int64, order *core.Record) ([]core.ID, error) {
	b, err := j.Journal.Bounds(ctx, shard)
	if err != nil {
		return nil, err
	}
	if b.First <= place {
		b.Next = place + 1
		st, err := j.stateAt(ctx, shard, b)
		if err != nil {
			return nil, err
		}
		return st.Took(place), nil
	}
	if order.Verb == core.Retry {
		return order.IDs, nil // it was read, and the journal trimmed; nothing says more of it
	}
	var took []core.ID // it was carried out, and the journal trimmed
	err = j.notes(ctx, shard, func(r *core.Record, _ commitlog.Record) {
		if r.Kind == core.Order && r.Order == order.Order {
			took = append(took, r.IDs...)
		}
	})
	return took, err
}

// Decided is a dead letter with a decision.
type Decided struct {
	core.Item
	Record commitlog.Record // the user's
	Verb   core.Verb
	At     int64 // Unix ms
}

// History returns the decided dead letters of a shard, in no order; a record that was redriven and given up again
// appears for each time.
func (j *Journals) History(ctx context.Context, shard int) ([]Decided, error) {
	return untrimmed(func() ([]Decided, error) { return j.history(ctx, shard) })
}

func (j *Journals) history(ctx context.Context, shard int) ([]Decided, error) {
	dead := map[core.ID]*Decided{}
	err := j.notes(ctx, shard, func(r *core.Record, user commitlog.Record) {
		switch r.Kind {
		case core.Dead:
			if dead[r.ID] != nil {
				return // a second copy, of one whose first mark got lost
			}
			user.Key, user.Value = slices.Clone(user.Key), slices.Clone(user.Value)
			dead[r.ID] = &Decided{Record: user, Item: core.Item{
				ID: r.ID, Key: r.Key, Dead: true, Reason: r.Reason, Timestamp: r.Timestamp, Attempts: r.Attempts, Since: r.Since, Answer: r.Answer,
			}}
		case core.Order:
			for _, id := range r.IDs {
				if l := dead[id]; l != nil && l.Verb == 0 {
					l.Verb, l.At = r.Verb, r.At
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	st, err := j.state(ctx, shard)
	if err != nil {
		return nil, err
	}
	var all []Decided
	for id, l := range dead {
		if it, open := st.Item(id.Origin); l.Verb != 0 && !(open && it.ID == id) {
			all = append(all, *l)
		}
	}
	return all, nil
}
