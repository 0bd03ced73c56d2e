package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// The shell's side of the journal: it appends, copies and reads here what the core wants, and gives the core
// the journal's records in order. It decides nothing. Each step is repeated with the same bytes until its
// outcome is known: a batch that landed twice is void the second time, as the core counts sequences. An error
// that no repetition helps against ends the shard, never the record: another start, here or elsewhere, reads
// the journal anew.

// final are errors of a log that no second try helps against.
var final = []error{fault.Corrupt, fault.NotFound, fault.OutOfRange, fault.Closed, fault.Invalid, fault.Sealed}

// again calls f until it succeeds or ctx ends: then, and when the error is final, it returns that.
func (s *Shard) again(ctx context.Context, what string, f func() error) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := f()
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		for _, kind := range final {
			if errors.Is(err, kind) {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		s.log.Warn("a step of the journal failed; it is tried again", "step", what, "pause", pause, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// appendAll appends the core's batches, each until it is known to be stored. It stays the same batch:
// what landed twice is void the second time.
func (s *Shard) appendAll(ctx context.Context) {
	for ok := true; ok; {
		select {
		case <-ctx.Done():
			return
		case entries := <-s.batches:
			ok = s.appendBatch(ctx, entries)
		}
	}
}

// appendBatch appends one; false when that is over. Like copyDead and note it is a separate call: their
// stack space is not needed while nothing is parked.
func (s *Shard) appendBatch(ctx context.Context, entries []core.Entry) bool {
	batch := make([]commitlog.Record, len(entries))
	for i := range entries {
		e := &entries[i]
		if e.Payload.From == core.Nowhere {
			batch[i] = wrap(&e.Record, nil)
			continue
		}
		rec, err := s.source(ctx, e.Payload, e.ID.Origin)
		if err != nil && lost(e.Payload) && ctx.Err() == nil {
			s.log.Error("a dead letter can't be delivered again: its copy can't be read", "dead_letter", e.ID.String(), "error", err)
			lost := e.Lost(lostCopy + err.Error())
			batch[i] = wrap(&lost.Record, nil)
			continue
		}
		if err != nil {
			return false
		}
		batch[i] = wrap(&e.Record, &rec)
	}
	for len(batch) > 0 {
		part := batch[:fitting(batch)]
		err := s.again(ctx, "append", func() error {
			_, err := s.cfg.Journal.Append(ctx, s.cfg.Shard, part, nil)
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				s.end(err)
			}
			return false
		}
		batch = batch[len(part):]
	}
	return true
}

// fitting is how many of the records a log takes at once; at least one.
func fitting(batch []commitlog.Record) int {
	total := 0
	for i := range batch {
		if total += commitlog.RecordBytes(&batch[i]); total > commitlog.MaxBatchBytes/2 && i > 0 {
			return i
		}
	}
	return len(batch)
}

// writeDead stores the payloads of dead letters, and what was ordered about them, in the order in which the core
// wants it.
func (s *Shard) writeDead(ctx context.Context) {
	for ok := true; ok; {
		switch e := s.nextLetter().(type) {
		case core.Copy:
			ok = s.copyDead(ctx, e)
		case core.Note:
			ok = s.note(ctx, &e)
		default:
			select {
			case <-ctx.Done():
				return
			case <-s.writing:
			}
		}
	}
}

// nextLetter returns what is to be written next, or nil.
func (s *Shard) nextLetter() (next core.Effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.letters) > 0 {
		next, s.letters[0], s.letters = s.letters[0], nil, s.letters[1:]
	}
	return next
}

// copyDead stores the payload of one dead letter; false when that is over.
func (s *Shard) copyDead(ctx context.Context, c core.Copy) bool {
	rec, err := s.source(ctx, c.Payload, c.ID.Origin)
	if err != nil && lost(c.Payload) && ctx.Err() == nil {
		s.log.Error("a dead letter was taken over without its payload, which can't be read", "dead_letter", c.ID.String(), "error", err)
		c.Answer = lostCopy + err.Error()
		s.do(func(st *core.State) { st.Copied(c, 0) })
		return true
	}
	if err != nil {
		return false
	}
	mark := c.Record
	mark.Set = s.cfg.Set
	var place int64
	err = s.again(ctx, "copy to the dead letters", func() error {
		place, err = s.cfg.Dead.Append(ctx, s.cfg.Shard, []commitlog.Record{wrap(&mark, &rec)}, nil)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			s.end(err)
		}
		return false
	}
	s.do(func(st *core.State) { st.Copied(c, place) })
	return true
}

// source returns the user's record of an entry.
func (s *Shard) source(ctx context.Context, p core.Payload, o core.Origin) (commitlog.Record, error) {
	if p.From == core.InMain {
		s.mu.Lock()
		defer s.mu.Unlock()
		w := s.pending[o]
		if w == nil {
			err := fmt.Errorf("the record %v that is to be parked is gone: no handler waits for it", o)
			s.endLocked(err)
			return commitlog.Record{}, err
		}
		return w.rec, nil
	}
	if p.From == core.InParent || p.From == core.InParentDead || p.From == core.AtTheEnd {
		return s.inherited(ctx, p, o)
	}
	return s.payload(ctx, p, o)
}

// lostCopy begins the answer of a dead letter that was to be delivered again, but whose copy is lost.
const lostCopy = "its copy can't be read: "

// payload reads the copy of a main record from an internal topic. An error ends the shard, except that
// of ctx, and that of a dead letter: it is lost alone.
func (s *Shard) payload(ctx context.Context, p core.Payload, of core.Origin) (commitlog.Record, error) {
	var out commitlog.Record
	err := s.again(ctx, "read of a payload", func() (err error) {
		out, err = s.copyAt(ctx, p, of, nil)
		return err
	})
	if err != nil && ctx.Err() == nil && p.From != core.InDead {
		s.end(err)
	}
	return out, err
}

// copyAt reads the copy of a main record once; near, if not nil, keeps what lies behind it for the next one.
func (s *Shard) copyAt(ctx context.Context, p core.Payload, of core.Origin, near *ahead) (commitlog.Record, error) {
	t, partition, set := s.cfg.Journal, s.cfg.Shard, s.cfg.Set
	switch p.From {
	case core.InDead:
		t = s.cfg.Dead
	case core.InParent, core.InParentDead:
		l := s.left[p.Shard]
		t, partition, set = l.journals.Journal, l.shard, l.journals.Set
		if p.From == core.InParentDead {
			t = l.journals.Dead
		}
	}
	return readNear(ctx, t, partition, p.Place, set, of, near)
}

// readOne reads the copy of a main record at a place of an internal topic. fault.Corrupt when another
// record lies there, whatever named the place.
func readOne(ctx context.Context, t *commitlog.Topic, partition int, place int64, set string, of core.Origin) (commitlog.Record, error) {
	return readNear(ctx, t, partition, place, set, of, nil)
}

func readNear(ctx context.Context, t *commitlog.Topic, partition int, place int64, set string, of core.Origin, near *ahead) (commitlog.Record, error) {
	rec, err := near.read(ctx, t, partition, place)
	if err != nil {
		return commitlog.Record{}, err
	}
	r, user, err := unwrap(set, rec)
	if err == nil && (r.Kind != core.Park && r.Kind != core.Dead || r.ID.Origin != of) && !edits(r, of) {
		err = fmt.Errorf("at %d lies no copy of record %d of partition %d: %w", place, of.Offset, of.Partition, fault.Corrupt)
	}
	return user, err
}

// ahead keeps what was read last: copies often lie one behind another, and a log far away takes its time for each read.
type ahead struct {
	topic     *commitlog.Topic
	partition int
	recs      []commitlog.Record
}

func (a *ahead) read(ctx context.Context, t *commitlog.Topic, partition int, place int64) (*commitlog.Record, error) {
	most := 1
	if a != nil {
		most = 256 << 10
		if a.topic == t && a.partition == partition {
			if i, ok := slices.BinarySearchFunc(a.recs, place, func(r commitlog.Record, at int64) int { return cmp.Compare(r.Offset, at) }); ok {
				return &a.recs[i], nil
			}
		}
	}
	recs, _, err := t.Read(ctx, partition, place, nil, &commitlog.ReadOptions{MaxBytes: most})
	switch {
	case err != nil:
		return nil, err
	case len(recs) == 0 || recs[0].Offset != place:
		return nil, fmt.Errorf("no record is at %d: %w", place, fault.Corrupt)
	case a != nil:
		*a = ahead{t, partition, recs}
	}
	return &recs[0], nil
}

// tail reads the journal for the core.
func (s *Shard) tail(ctx context.Context) {
	from := s.cfg.From
	err := s.again(ctx, "look at the journal", func() error {
		b, err := s.cfg.Journal.Bounds(ctx, s.cfg.Shard)
		if err == nil && (from < b.First || from > b.Next) {
			s.log.Error("what was parked may be lost", "error", beyond(from, b))
			s.do(func(*core.State) { s.cut = from < b.First })
			from = b.First
		}
		return err
	})
	if err == nil {
		err = s.readOn(ctx, from)
	}
	if ctx.Err() == nil {
		s.end(err)
	}
}

func (s *Shard) readOn(ctx context.Context, from int64) error {
	return s.follow(ctx, from, func(recs []placedRecord, next int64) {
		s.do(func(st *core.State) {
			st.Clock(s.nowLocked().UnixMilli())
			for _, r := range recs {
				st.Read(r.place, r.rec)
			}
			st.Passed(next)
		})
		s.hurry()
		if f := s.cfg.Advanced; f != nil {
			f()
		}
	})
}

type placedRecord struct {
	place int64
	rec   *core.Record
}

// follow reads the journal and waits for more, until ctx ends or an error that is final.
func (s *Shard) follow(ctx context.Context, at int64, take func([]placedRecord, int64)) error {
	t, partition, set := s.cfg.Journal, s.cfg.Shard, s.cfg.Set
	var buf []commitlog.Record
	var foreign Foreign
	return s.again(ctx, "read of the journal", func() error {
		for {
			recs, next, err := t.Read(ctx, partition, at, buf[:0], &commitlog.ReadOptions{MaxBytes: 256 << 10})
			if err != nil {
				return err
			}
			out := make([]placedRecord, 0, len(recs))
			for i := range recs {
				r, _, err := unwrap(set, &recs[i])
				if err != nil {
					if foreign.note(recs[i].Offset, err); bits.OnesCount(uint(foreign.Count)) == 1 { // 1, 2, 4, 8 …
						s.log.Warn("a record in the journal is none of ours, and counts for nothing", "offset", recs[i].Offset, "so_many", foreign.Count, "error", err)
					}
					continue
				}
				out = append(out, placedRecord{recs[i].Offset, r})
			}
			if len(recs) > 0 || next > at {
				take(out, next)
				at, buf = next, recs
				continue
			}
			if err := t.Wait(ctx, partition, at); err != nil {
				return err
			}
		}
	})
}

// behind ends a shard whose journal has a higher fence. It is a group.Outrun.
type behind struct{ epoch int64 }

func (b behind) Error() string {
	return fmt.Sprintf("epoch %d of it was begun elsewhere: %v", b.epoch, fault.Fenced)
}

// Unwrap serves errors.Is.
func (behind) Unwrap() error { return fault.Fenced }

// Above returns the epoch that was met.
func (b behind) Above() int64 { return b.epoch }
