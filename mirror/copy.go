package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// A partition is copied by comparing, see compare.go: what the target has counts, and the registry keeps a pair
// of offsets as a note, now and then. Each run takes that state over at a higher epoch and appends under its
// producer: the log refuses an earlier run once it has stored an append of the later one. The sequence of the
// state may be an old one, and the log then takes an append for one that it has. So a run appends one batch at
// a time until the target has what was sent (sure), and only then a whole window.

// settlePause is between two notes of how far a partition was copied.
const settlePause = time.Second

// copier copies one partition.
type copier struct {
	m         *Mirror
	from, to  *commitlog.Topic
	storage   int
	partition int
	once      bool
	until     int64 // with once: the end of the source at the start
	s         *stored
	settled   time.Time // when s was stored
	sure      bool      // the sequence is the log's
	end       int64     // of the source, when it was last looked at
	doubt     uint64    // of the source, before what is about to be copied was read
	behind    int64     // what is noted of this partition
}

// planned is an append with its records.
type planned struct {
	records []commitlog.Record
	next    int64 // offset of the source behind them
}

func (m *Mirror) copyPartition(ctx context.Context, from, to *commitlog.Topic, storage, partition int, once bool) error {
	c := &copier{m: m, from: from, to: to, storage: storage, partition: partition, once: once}
	err := c.judge(ctx, c.run(ctx))
	if m.retired(ctx, storage, err) {
		return nil
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("mirror of topic %q, storage topic %d, partition %d: %w", m.c.Topic, storage, partition, err)
	}
	return err
}

// patiently repeats a call while its store does not answer.
func (c *copier) patiently(ctx context.Context, what string, call func() error) error {
	for {
		err := call()
		retry := errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Unknown) || errors.Is(err, fault.NotDone)
		if err != nil && (!retry || ctx.Err() != nil) {
			return err
		}
		c.m.problems.note(what, err)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPause):
		}
	}
}

func (c *copier) run(ctx context.Context) error {
	defer func() { c.m.pending.Add(-c.behind) }()
	var b commitlog.Bounds
	err := c.patiently(ctx, "source", func() (err error) { b, err = c.from.Bounds(ctx, c.partition); return err })
	if err != nil {
		return err
	}
	c.until = b.Next
	base, err := c.base(b.First)
	if err != nil {
		return err
	}
	key := c.m.stateKey(c.storage, c.partition)
	if err := c.patiently(ctx, "registry of the target", func() (err error) { c.s, err = c.m.takeOver(ctx, key, base); return err }); err != nil {
		return err
	}
	c.settled = time.Now()
	if b.Next < c.s.From {
		return fmt.Errorf("the source was copied up to offset %d and ends at %d: it is older than its copy, as after it was restored from a backup, and nothing is copied over what it lost: %w", c.s.From, b.Next, fault.Conflict)
	}
	if err := c.checkSource(ctx); err != nil {
		return err
	}
	if err := c.readBack(ctx, nil, 0); err != nil {
		return err
	}
	if c.s.Records == 0 {
		c.s.From = max(c.s.From, b.First) // nothing is copied: what the source has dropped never will be
	}
	c.note(b.Next)
	for {
		if c.once && c.s.From >= c.until { // a source may grow faster than it is copied
			return c.settle(ctx)
		}
		batches, end, err := c.plan(ctx)
		if err != nil {
			return err
		}
		if len(batches) > 0 {
			if err := c.move(ctx, batches); err != nil {
				return err
			}
			continue
		}
		if end || c.once && c.s.From >= c.until { // behind a gap
			return c.settle(ctx)
		}
		if err := c.settle(ctx); err != nil {
			return err
		}
		if err := c.patiently(ctx, "source", func() error { return c.from.Wait(ctx, c.partition, c.s.From) }); err != nil {
			return err
		}
	}
}

// checkSource refuses a source that went back and has grown past the pair since: what it has below is no copy's source.
func (c *copier) checkSource(ctx context.Context) error {
	if !c.s.Last.Known() {
		return nil
	}
	lost := false
	err := c.patiently(ctx, "source", func() (err error) {
		lost, err = c.from.Lost(ctx, c.partition, c.s.Last[0], c.s.Last[1], c.s.From)
		return err
	})
	if lost {
		return fmt.Errorf("the source was copied up to offset %d, and lacks the record at offset %d that was: it went back, as after it was restored from a backup, and has grown since; nothing is copied behind what it lost: %w", c.s.From, c.s.Last[0], fault.Conflict)
	}
	return err
}

// plan reads as many appends as may be on their way at once. end says that the source ends here for ever.
func (c *copier) plan(ctx context.Context) (batches []planned, end bool, err error) {
	at, most := c.s.From, 1
	if c.sure {
		most = window
	}
	c.doubt = c.from.Doubt()
	for len(batches) < most {
		recs, next, err := c.readSource(ctx, at)
		if err != nil {
			return nil, false, err
		}
		if len(recs) == 0 && next == at {
			break
		}
		if len(recs) == 0 {
			if len(batches) == 0 {
				c.s.From = next // a gap
			}
			at = next
			continue
		}
		for len(recs) > 0 && len(batches) < most {
			n := min(len(recs), batchRecords)
			to := next
			if n < len(recs) {
				to = recs[n].Offset
			}
			batches = append(batches, planned{recs[:n:n], to})
			recs, at = recs[n:], to
		}
	}
	if len(batches) > 0 {
		return batches, false, nil
	}
	var b commitlog.Bounds
	err = c.patiently(ctx, "source", func() (err error) { b, err = c.from.Bounds(ctx, c.partition); return err })
	if err != nil {
		return nil, false, err
	}
	c.note(b.Next)
	return nil, b.Sealed && c.s.From >= b.Next, nil
}

func (c *copier) readSource(ctx context.Context, at int64) (recs []commitlog.Record, next int64, err error) {
	err = c.patiently(ctx, "source", func() (err error) {
		recs, next, err = c.from.Read(ctx, c.partition, at, nil, &commitlog.ReadOptions{MaxBytes: c.m.c.BatchBytes})
		return err
	})
	return recs, next, err
}

// note keeps the sum of what is still to be copied.
func (c *copier) note(end int64) {
	c.end = max(end, c.end)
	behind := max(0, c.end-c.s.From)
	c.m.pending.Add(behind - c.behind)
	c.behind = behind
}

// move appends batches and reads them back.
//
// The copy may outlive what the source has not made durable, and other records would get those offsets. So that
// is done first; what was taken back meanwhile is read again.
func (c *copier) move(ctx context.Context, batches []planned) error {
	if err := c.patiently(ctx, "source", func() error { return c.from.Settle(ctx) }); err != nil || c.from.Doubt() != c.doubt {
		return err
	}
	done, err := c.send(ctx, batches)
	c.s.Sequence += int64(done)
	switch {
	case errors.Is(err, fault.Fenced): // by a later mirror, or the registry has forgotten an epoch: the state decides
		c.s.Epoch++
		c.sure = false
		return c.settle(ctx)
	case c.s.Sequence > 0 && (errors.Is(err, fault.Forgotten) || errors.Is(err, fault.Invalid)):
		// The log does not know the producer, or less of it than the state says.
		c.s.Producer, c.s.Sequence = commitlog.NewProducerID(), 0
		c.sure = false
		return c.settle(ctx)
	case err != nil:
		return err
	}
	var sent []commitlog.Record
	for _, b := range batches {
		sent = append(sent, b.records...)
	}
	had := c.s.Records
	if err := c.readBack(ctx, sent, batches[len(batches)-1].next); err != nil {
		return err
	}
	copied := c.s.Records - had
	c.sure = copied >= int64(len(sent))
	c.m.records.Add(copied)
	for i := range min(int(copied), len(sent)) {
		c.m.bytes.Add(int64(commitlog.RecordBytes(&sent[i])))
	}
	c.note(c.end)
	if time.Since(c.settled) < settlePause {
		return nil
	}
	return c.settle(ctx)
}

// settle writes the state.
func (c *copier) settle(ctx context.Context) error {
	c.settled = time.Now()
	return c.patiently(ctx, "registry of the target", func() error { return c.m.writeState(ctx, c.s) })
}

// send appends batches until all are acknowledged, and says how many are.
func (c *copier) send(ctx context.Context, batches []planned) (done int, err error) {
	err = c.patiently(ctx, "target", func() error {
		errs := c.fly(ctx, batches[done:], c.s.Sequence+int64(done))
		for _, err := range errs { // what follows a failure left a gap
			if err != nil {
				return err
			}
			done++
		}
		return nil
	})
	return done, err
}

// fly appends batches one behind the other and waits for all.
func (c *copier) fly(ctx context.Context, batches []planned, sequence int64) []error {
	errs := make([]error, len(batches))
	var answers sync.WaitGroup
	for i := range batches {
		answers.Add(1)
		p := commitlog.Producer{ID: c.s.Producer, Epoch: c.s.Epoch, Sequence: sequence + int64(i)}
		c.to.AppendAsync(ctx, c.partition, batches[i].records, &commitlog.AppendOptions{Producer: p}, func(_ int64, err error) {
			errs[i] = err
			answers.Done()
		})
	}
	answers.Wait()
	return errs
}
