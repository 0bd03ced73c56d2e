package subscription

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// Looking at a subscription without owning it: whoever may read the journals folds them as an owner does, and
// sees what is parked, what was given up, and what was ordered and decided. It writes nothing, so it needs no
// epoch; what it sees was true when it was read, and whoever acts on it gives an order, which the owner checks
// once more (orders.go).

// Letter is a record that is not delivered: a dead letter, or one that waits behind one of its key.
type Letter struct {
	ID     core.ID
	Shard  int
	Record commitlog.Record // the user's
	Lost   error            // why the record can't be read; nil: it is there
	Failed bool             // else it waits
	Item   core.Item

	Verb    core.Verb // what was ordered, of one that is done with
	Decided int64     // when, in Unix milliseconds
}

// Name is how people name a letter: storage topic, partition, offset and round.
func Name(id core.ID) string {
	return fmt.Sprintf("%d.%d.%d.%d", id.Storage, id.Partition, id.Offset, id.Round)
}

// Journals are the internal topics of a subscription, for whoever does not own it.
type Journals struct {
	Definition *Document
	Journal    *commitlog.Topic
	Dead       *commitlog.Topic
	// Stored is from where the registry says that the journal of a shard is needed; below 0: nothing is stored.
	// nil: nobody asks.
	Stored func(ctx context.Context, shard int) (int64, error)
	// Strange is told what was found in a journal that is none of ours; nil: nobody asks.
	Strange func(Strange)
}

// Strange is what somebody else has written into a journal. It counts for nothing.
type Strange struct {
	Shard int
	Count int
	First int64 // offset
	Why   error // of the first
}

func (s *Strange) note(offset int64, why error) {
	if s.Count++; s.Count == 1 {
		s.First, s.Why = offset, why
	}
}

// state reads what counts of a shard's journal by now. fault.OutOfRange: it was trimmed meanwhile.
func (j *Journals) state(ctx context.Context, shard int) (*core.State, error) {
	b, err := j.Journal.Bounds(ctx, shard)
	if err != nil {
		return nil, err
	}
	return j.stateAt(ctx, shard, b)
}

// stateAt reads what counted of it when the journal ended at b.Next.
func (j *Journals) stateAt(ctx context.Context, shard int, b commitlog.Bounds) (*core.State, error) {
	retry := j.Definition.Retry
	st := core.New(core.Config{
		Set: j.Definition.Set().ID, From: b.First, Now: time.Now().UnixMilli(), MaxAttempts: retry.MaxAttempts, MaxPause: retry.longest(),
	})
	var buf []commitlog.Record
	strange := Strange{Shard: shard}
	for at := b.First; at < b.Next; {
		recs, next, err := j.Journal.Read(ctx, shard, at, buf[:0], nil)
		if err != nil {
			return nil, err
		}
		for i := range recs {
			if recs[i].Offset >= b.Next {
				break
			}
			r, _, err := unwrap(j.set(), &recs[i])
			if err != nil {
				strange.note(recs[i].Offset, err)
				continue
			}
			st.Read(recs[i].Offset, r)
		}
		if next <= at {
			break
		}
		at, buf = next, recs
	}
	if strange.Count > 0 && j.Strange != nil {
		j.Strange(strange)
	}
	return st, nil
}

// Parked is how many records are parked or dead letters, and would be lost with the journals.
func (j *Journals) Parked(ctx context.Context) (int, error) {
	all, err := j.Items(ctx)
	return len(all), err
}

func (j *Journals) set() string { return j.Definition.Set().ID }

// Letters are all records that are not delivered because somebody has to decide, in order of their
// places. Those that are parked and will be tried again are not among them. With an error they are those
// of the shards that could be read.
func (j *Journals) Letters(ctx context.Context) ([]Letter, error) {
	var all []Letter
	var errs []error
	for shard := range j.Definition.Set().Shards {
		some, err := untrimmed(func() ([]Letter, error) { return j.lettersOf(ctx, shard) })
		if err = errors.Join(err, j.whole(ctx, shard)); err != nil {
			errs = append(errs, fmt.Errorf("shard %d: %w", shard, err))
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b Letter) int {
		return cmp.Or(slices.Compare(a.Item.Key, b.Item.Key), a.ID.Compare(b.ID.Origin))
	})
	return all, errors.Join(errs...)
}

func (j *Journals) lettersOf(ctx context.Context, shard int) (all []Letter, _ error) {
	st, err := j.state(ctx, shard)
	if err != nil {
		return nil, err
	}
	blocked := map[string]bool{}
	for _, it := range st.Items() {
		l := Letter{ID: it.ID, Shard: shard, Failed: it.Dead, Item: it}
		switch {
		case it.Dead && it.Blocking && it.Key != nil:
			blocked[string(it.Key)] = true
		case it.Dead:
		case it.Key == nil || !blocked[string(it.Key)]:
			continue
		}
		t, place := j.Journal, it.Place
		if it.Dead {
			t, place = j.Dead, it.Copy
		}
		if l.Record, err = readOne(ctx, t, shard, place, j.set(), it.Origin); err != nil {
			if !slices.ContainsFunc(final, func(kind error) bool { return errors.Is(err, kind) }) {
				return nil, err
			}
			l.Lost, l.Record = err, commitlog.Record{Key: it.Key, Timestamp: it.Timestamp}
		}
		all = append(all, l)
	}
	return all, nil
}

// KeyState is what one shard has parked of a key.
type KeyState struct {
	Shard  int
	Parked int
	Head   core.Item // what is delivered, or decided about, before the rest
}

// KeyStates are those of a key, by shard; a shard that holds nothing of it back has none. With an error they
// are those of the shards that could be read.
func (j *Journals) KeyStates(ctx context.Context, key []byte) (states []KeyState, _ error) {
	var errs []error
	for shard := range j.Definition.Set().Shards {
		st, err := untrimmed(func() (*core.State, error) { return j.state(ctx, shard) })
		if err != nil {
			errs = append(errs, fmt.Errorf("shard %d: %w", shard, err))
			continue
		}
		l := KeyState{Shard: shard}
		for _, it := range st.Items() {
			if it.Key == nil || !bytes.Equal(it.Key, key) || it.Dead && !it.Blocking {
				continue
			}
			if l.Parked++; l.Parked == 1 {
				l.Head = it
			}
		}
		if l.Parked > 0 {
			states = append(states, l)
		}
	}
	return states, errors.Join(errs...)
}

// untrimmed looks again when the owner of a journal has trimmed it under the eyes of the reader.
func untrimmed[T any](look func() (T, error)) (out T, err error) {
	for range 10 {
		if out, err = look(); !errors.Is(err, fault.OutOfRange) {
			break
		}
	}
	return out, err
}
