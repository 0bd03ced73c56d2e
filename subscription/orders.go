package subscription

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/subscription/core"
)

// What people want with dead letters goes through the journal, as all that lasts: an order is a record in it that
// names letters, and it is decided where it lies which of them it takes, by the first order that names them. So
// two people, or one command given twice, can't have a record delivered twice. Before the owner acts on an order
// it stores with the dead letters what becomes of them: that stays when the journal's beginning is dropped.

// Edited is the header by which a record says that its value is not that of the topic: it names the dead
// letter in whose place it was put.
const Edited = "ringfence-edited"

// noteLocked hands a note on.
func (s *Shard) noteLocked(n core.Note) {
	s.notes = append(s.notes, n)
	select {
	case s.noting <- struct{}{}:
	default:
	}
}

// noteAll stores with the dead letters what becomes of them, before it does.
func (s *Shard) noteAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.noting:
		}
		s.mu.Lock()
		notes := s.notes
		s.notes = nil
		s.mu.Unlock()
		for i := range notes {
			if !s.note(ctx, &notes[i]) {
				return
			}
		}
	}
}

// note stores one; false when that is over.
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

// edits says whether r is an order with a new value for a record.
func edits(r *core.Record, of core.Origin) bool {
	return r.Kind == core.Order && r.Verb == core.Edit && r.IDs[0].Origin == of
}

// Edit is the record that is delivered in the place of a dead letter.
func (l *Letter) Edit(value []byte) (commitlog.Record, error) {
	out := commitlog.Record{Key: l.Record.Key, Value: value}
	out.Headers = slices.DeleteFunc(slices.Clone(l.Record.Headers), func(h commitlog.Header) bool { return h.Name == Edited })
	out.Headers = append(out.Headers, commitlog.Header{Name: Edited, Value: []byte(Name(l.ID))})
	err := storable(&out)
	return out, err
}

// Order writes down what is to be done with dead letters; edited is the new record of the only one. The
// owners of the shards do it. It returns those that were not dead letters any more when the order came, or
// of which an earlier one wants something.
func (j *Journals) Order(ctx context.Context, verb core.Verb, letters []Letter, edited *commitlog.Record) (late []core.ID, _ error) {
	byShard := map[int][]core.ID{}
	for _, l := range letters {
		byShard[l.Shard] = append(byShard[l.Shard], l.ID)
	}
	id := rand.Text()[:12]
	for shard := range j.Definition.Set().Shards {
		for some := range slices.Chunk(byShard[shard], core.MaxIDs) {
			r := core.Record{Set: j.set(), Kind: core.Order, At: time.Now().UnixMilli(), Order: id, Verb: verb, IDs: some}
			if edited != nil {
				r.Key = letters[0].Item.Key
			}
			place, err := j.Journal.Append(ctx, shard, []commitlog.Record{wrap(&r, edited)}, nil)
			if err != nil {
				return nil, err
			}
			took, err := untrimmed(func() ([]core.ID, error) { return j.took(ctx, shard, place, id) })
			if err != nil {
				return nil, fmt.Errorf("the order is written down, and nobody knows whether it came in time: %w", err)
			}
			for _, id := range some {
				if !slices.Contains(took, id) {
					late = append(late, id)
				}
			}
		}
	}
	return late, nil
}

// took is which records the order at a place took: that is decided by what lies before it.
func (j *Journals) took(ctx context.Context, shard int, place int64, order string) ([]core.ID, error) {
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
	var took []core.ID // it was carried out, and the journal trimmed
	err = j.notes(ctx, shard, func(r *core.Record, _ commitlog.Record) {
		if r.Kind == core.Order && r.Order == order {
			took = append(took, r.IDs...)
		}
	})
	return took, err
}

// notes goes through what is stored with the dead letters of a shard.
func (j *Journals) notes(ctx context.Context, shard int, take func(*core.Record, commitlog.Record)) error {
	b, err := j.Dead.Bounds(ctx, shard)
	if err != nil {
		return err
	}
	var buf []commitlog.Record
	for at := b.First; at < b.Next; {
		recs, next, err := j.Dead.Read(ctx, shard, at, buf[:0], nil)
		if err != nil {
			return err
		}
		for i := range recs {
			if r, user, err := unwrap(j.set(), &recs[i]); err == nil {
				take(r, user)
			}
		}
		if next <= at {
			break
		}
		at, buf = next, recs
	}
	return nil
}

// History are the dead letters of the present set of which somebody has decided, in the order of Letters: of
// a record that was redriven and given up again, each. With an error they are those of the shards that could
// be read.
func (j *Journals) History(ctx context.Context) (all []Letter, _ error) {
	var errs []error
	for shard := range j.Definition.Set().Shards {
		some, err := untrimmed(func() ([]Letter, error) { return j.historyOf(ctx, shard) })
		if err != nil {
			errs = append(errs, fmt.Errorf("shard %d: %w", shard, err))
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b Letter) int {
		return cmp.Or(slices.Compare(a.Item.Key, b.Item.Key), a.ID.Compare(b.ID.Origin), cmp.Compare(a.ID.Round, b.ID.Round))
	})
	return all, errors.Join(errs...)
}

func (j *Journals) historyOf(ctx context.Context, shard int) ([]Letter, error) {
	letters := map[core.ID]*Letter{}
	err := j.notes(ctx, shard, func(r *core.Record, user commitlog.Record) {
		switch r.Kind {
		case core.Dead:
			if letters[r.ID] != nil {
				return // a second copy, of one whose first mark got lost
			}
			user.Key, user.Value = slices.Clone(user.Key), slices.Clone(user.Value)
			letters[r.ID] = &Letter{ID: r.ID, Shard: shard, Record: user, Item: core.Item{
				ID: r.ID, Key: r.Key, Dead: true, Reason: r.Reason, Timestamp: r.Timestamp, Attempts: r.Attempts, Since: r.Since, Answer: r.Answer,
			}}
		case core.Order:
			for _, id := range r.IDs {
				if l := letters[id]; l != nil && l.Verb == 0 {
					l.Verb, l.Decided = r.Verb, r.At
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
	var all []Letter
	for id, l := range letters {
		if it, open := st.Item(id.Origin); l.Verb != 0 && !(open && it.ID == id) {
			all = append(all, *l)
		}
	}
	return all, nil
}
