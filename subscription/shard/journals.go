package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// A reader folds a journal as its owner does, without owning it: it sees what is parked, what was given up, and
// what was ordered. It writes nothing, so it needs no epoch. What it sees may be old; to change anything, it gives
// an order, which the owner checks once more (orders.go).

// Journals are the internal topics of a shard set, for readers that own none of its shards.
type Journals struct {
	Set     string // the ID of the shard set
	Shards  int    // of that set
	Retry   dispatch.Retry
	Journal *commitlog.Topic
	Dead    *commitlog.Topic
	// Decisions is the topic of all sets with what became of records by orders.
	Decisions *commitlog.Topic
	// Stored returns the offset from which the registry says a shard's journal is needed; below 0: nothing is
	// stored. nil: it is not asked.
	Stored func(ctx context.Context, shard int) (int64, error)
	// Foreign is called with records in a journal that no shard wrote; nil: they are not reported.
	Foreign func(Foreign)
}

// Foreign are records of another writer in a journal. They are passed over.
type Foreign struct {
	Shard int
	Count int
	First int64 // offset
	Why   error // of the first
}

func (s *Foreign) note(offset int64, why error) {
	if s.Count++; s.Count == 1 {
		s.First, s.Why = offset, why
	}
}

// Items returns the parked records and dead letters of a shard.
func (j *Journals) Items(ctx context.Context, shard int) ([]core.Item, error) {
	st, err := untrimmed(func() (*core.State, error) { return j.state(ctx, shard) })
	if err != nil {
		return nil, err
	}
	return st.Items(), nil
}

// Payload returns the user's record of an item. lost says why it can never be read again; nil: it can.
func (j *Journals) Payload(ctx context.Context, shard int, it *core.Item) (rec commitlog.Record, lost, err error) {
	t, place := j.Journal, it.Place
	if it.Dead {
		t, place = j.Dead, it.Copy
	}
	rec, err = readOne(ctx, t, shard, place, j.Set, it.Origin)
	if err != nil && slices.ContainsFunc(final, func(kind error) bool { return errors.Is(err, kind) }) {
		return commitlog.Record{Key: it.Key, Timestamp: it.Timestamp}, err, nil
	}
	return rec, nil, err
}

// state reads what counts of a shard's journal now. fault.OutOfRange: it was trimmed meanwhile.
func (j *Journals) state(ctx context.Context, shard int) (*core.State, error) {
	b, err := j.Journal.Bounds(ctx, shard)
	if err != nil {
		return nil, err
	}
	return j.stateAt(ctx, shard, b)
}

// stateAt reads what counted when the journal ended at b.Next.
func (j *Journals) stateAt(ctx context.Context, shard int, b commitlog.Bounds) (*core.State, error) {
	st := core.New(core.Config{
		Set: j.Set, From: b.First, Now: time.Now().UnixMilli(), MaxPause: j.Retry.Longest().Milliseconds(),
	})
	foreign := Foreign{Shard: shard}
	err := scan(ctx, j.Journal, shard, b, func(rec *commitlog.Record) {
		r, _, err := unwrap(j.Set, rec)
		if err != nil {
			foreign.note(rec.Offset, err)
			return
		}
		st.Read(rec.Offset, r)
	})
	if err != nil {
		return nil, err
	}
	if foreign.Count > 0 && j.Foreign != nil {
		j.Foreign(foreign)
	}
	return st, nil
}

// scan goes through the records of a partition within bounds.
func scan(ctx context.Context, t *commitlog.Topic, partition int, b commitlog.Bounds, take func(*commitlog.Record)) error {
	var buf []commitlog.Record
	for at := b.First; at < b.Next; {
		recs, next, err := t.Read(ctx, partition, at, buf[:0], nil)
		if err != nil {
			return err
		}
		for i := range recs {
			if recs[i].Offset >= b.Next {
				break
			}
			take(&recs[i])
		}
		if next <= at {
			break
		}
		at, buf = next, recs
	}
	return nil
}

// decided goes through the decisions about records of all sets, in the order in which they were stored, some
// twice.
func (j *Journals) decided(ctx context.Context, take func(*core.Record, commitlog.Record)) error {
	_, err := untrimmed(func() (none struct{}, _ error) {
		b, err := j.Decisions.Bounds(ctx, 0)
		if err != nil {
			return none, err
		}
		return none, scan(ctx, j.Decisions, 0, b, func(rec *commitlog.Record) {
			if r, user, err := unwrap("", rec); err == nil && r.Kind == core.Decided {
				take(r, user)
			}
		})
	})
	return err
}

// untrimmed repeats a look during which the owner has trimmed the journal.
func untrimmed[T any](look func() (T, error)) (out T, err error) {
	for range 10 {
		if out, err = look(); !errors.Is(err, fault.OutOfRange) {
			break
		}
	}
	return out, err
}

// ErrCut says that a journal lacks a part that its shard needs: it was trimmed by others, or the log went
// back. The main position has passed what was parked there, so it is not delivered again by itself.
var ErrCut = fmt.Errorf("the journal is not whole: %w", fault.Corrupt)

// beyond is the damage of a journal that lacks the place from which it is needed; nil: it has it.
func beyond(from int64, b commitlog.Bounds) error {
	const mend = `"ringfence subscription reset" from before they were parked delivers them again`
	switch {
	case from < b.First:
		return fmt.Errorf("it is needed from %d on and begins at %d: %d of its records are gone, and as many parked ones and dead letters at most; "+mend+": %w", from, b.First, b.First-from, ErrCut)
	case from > b.Next:
		return fmt.Errorf("it is needed from %d on and ends at %d: what was parked since it was as it is may be lost; "+mend+": %w", from, b.Next, ErrCut)
	}
	return nil
}

// Whole reports whether a shard's journal holds all that is needed of it. The owner stores a place before it
// trims to it, and appends before it stores: so this reads the beginning first, and the end last.
func (j *Journals) Whole(ctx context.Context, shard int) error {
	if j.Stored == nil {
		return nil
	}
	before, err := j.Journal.Bounds(ctx, shard)
	if err != nil {
		return err
	}
	from, err1 := j.Stored(ctx, shard)
	after, err2 := j.Journal.Bounds(ctx, shard)
	if err := errors.Join(err1, err2); err != nil || from < 0 {
		return err
	}
	return beyond(from, commitlog.Bounds{First: before.First, Next: after.Next})
}
