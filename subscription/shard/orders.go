package shard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/subscription/core"
)

// An order about dead letters goes through the journal, like all that lasts: it is a record that names dead letters,
// and the first order that names one has it. So two operators, or one command given twice, can't have a record
// delivered twice. Before the owner acts on an order it stores, with the decisions, what the order makes of each record:
// these stay when the journal is gone. If the journal ends first, an heir stores them.

// note stores what an order made of records with the decisions, before it takes effect; false when that is over.
func (s *Shard) note(ctx context.Context, n *core.Note) bool {
	err := s.storeDecisions(ctx, n.Of)
	if err != nil {
		if ctx.Err() == nil {
			s.end(err)
		}
		return false
	}
	s.do(func(st *core.State) { st.Noted(*n) })
	return true
}

func (s *Shard) storeDecisions(ctx context.Context, of []core.Entry) error {
	var near ahead
	var batch []commitlog.Record
	size := 0
	store := func() error {
		if len(batch) == 0 {
			return nil
		}
		return s.again(ctx, "note of an order", func() error {
			_, err := s.cfg.Decisions.Append(ctx, 0, batch, nil)
			return err
		})
	}
	for i := range of {
		rec, err := s.decision(ctx, &of[i], &near)
		if err != nil {
			return err
		}
		if size += commitlog.RecordBytes(&rec); size > commitlog.MaxBatchBytes/2 {
			if err := store(); err != nil {
				return err
			}
			batch, size = nil, commitlog.RecordBytes(&rec)
		}
		batch = append(batch, rec)
	}
	if err := store(); err != nil {
		return err
	}
	return s.again(ctx, "note of an order", func() error { return s.cfg.Decisions.Settle(ctx) }) // it lasts as long as what it tells of
}

// decision is the stored form of what an order made of a record, without its payload when that can't be read any more:
// then it was lost, or an attempt that was under way when the order came has succeeded.
func (s *Shard) decision(ctx context.Context, e *core.Entry, near *ahead) (commitlog.Record, error) {
	var rec commitlog.Record
	err := s.again(ctx, "read of what was decided about", func() (err error) {
		rec, err = s.copyAt(ctx, e.Payload, e.ID.Origin, near)
		return err
	})
	switch {
	case err == nil:
		return wrap(&e.Record, &rec), nil
	case ctx.Err() != nil:
		return rec, err
	}
	r := e.Record
	r.NoCopy = true
	return wrap(&r, nil), nil
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
	User   string            // gives the order
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
		r := core.Record{Set: j.Set, Kind: core.Order, At: time.Now().UnixMilli(), Order: id, User: o.User, Verb: o.Verb, IDs: some, Key: o.Key}
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
	err = j.decided(ctx, func(r *core.Record, _ commitlog.Record) {
		if r.Order == order.Order && !slices.Contains(took, r.ID) {
			took = append(took, r.ID)
		}
	})
	return took, err
}

// Decision is what became of a record by an order.
type Decision struct {
	core.Item
	Record commitlog.Record // the user's
	Lost   bool             // that could not be read any more
	Verb   core.Verb
	User   string
	At     int64 // Unix ms
}

// History returns the wanted ones of what became of records of this set and of earlier ones, in the order in which it was
// stored; a record that was redriven and given up again appears for each time. What the shards have yet to carry out is not
// among it.
func (j *Journals) History(ctx context.Context, wanted func(*Decision) bool) (all []Decision, _ error) {
	type given struct {
		id    core.ID
		order string
	}
	seen := map[given]bool{} // a note may be stored twice
	err := j.decided(ctx, func(r *core.Record, user commitlog.Record) {
		if g := (given{r.ID, r.Order}); r.Verb != 0 && !seen[g] {
			seen[g] = true
			d := Decision{Record: user, Lost: r.NoCopy, Verb: r.Verb, User: r.User, At: r.At, Item: core.Item{
				ID: r.ID, Key: r.Key, Reason: r.Reason, Timestamp: r.Timestamp, Attempts: r.Attempts, Since: r.Since, Answer: r.Answer,
			}}
			if wanted(&d) {
				d.Record = commitlog.CloneRecords([]commitlog.Record{user})[0]
				all = append(all, d)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	var errs []error
	open := map[core.ID]core.Item{}
	for shard := range j.Shards {
		items, err := j.Items(ctx, shard)
		if err != nil {
			errs = append(errs, fmt.Errorf("shard %d: %w", shard, err))
		}
		for _, it := range items {
			open[it.ID] = it
		}
	}
	return slices.DeleteFunc(all, func(d Decision) bool {
		it, is := open[d.ID]
		return is && it.Since <= d.At // one that failed later came again, by a reset
	}), errors.Join(errs...)
}
