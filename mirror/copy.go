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

// A partition is copied window by window. What is going to be appended, and under which sequence numbers,
// is stored in the target's registry first (move), and only then appended; the state is stored again with
// the next window. A mirror that is killed in between leaves a window of which nobody knows how much is there,
// and whoever goes on sends exactly that again (finishWindow): the same records under the same numbers, of
// which the target keeps one. Before that it makes sure that source and target are the ones that the state is
// of (recognize), or the numbers would mean nothing.

// copier copies one partition.
type copier struct {
	m         *Mirror
	from, to  *commitlog.Topic
	storage   int
	partition int
	once      bool
	until     int64 // with once: the end of the source at the start
	s         *stored
	end       int64  // of the source, when it was last looked at
	doubt     uint64 // of the source, before what is about to be copied was read
	behind    int64  // what is noted of this partition
}

// planned is an append with its records.
type planned struct {
	span
	records []commitlog.Record
}

func (m *Mirror) copyPartition(ctx context.Context, from, to *commitlog.Topic, storage, partition int, once bool) error {
	c := &copier{m: m, from: from, to: to, storage: storage, partition: partition, once: once}
	err := c.run(ctx)
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
	key := c.m.stateKey(c.storage, c.partition)
	if err := c.patiently(ctx, "registry of the target", func() (err error) { c.s, err = c.m.takeOver(ctx, key, b.First); return err }); err != nil {
		return err
	}
	if err := c.recognize(ctx, b); err != nil {
		return err
	}
	c.note(b.Next)
	if err := c.finishWindow(ctx); err != nil {
		return err
	}
	for {
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
		if c.once && c.s.From >= c.until || end {
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

// recognize looks whether the state is of these two topics. What was copied to a target that was
// deleted since is copied again; a source that was replaced is refused, as its records would pass
// for copied ones, and so is a target with records that were not copied.
func (c *copier) recognize(ctx context.Context, source commitlog.Bounds) error {
	var target commitlog.Bounds
	err := c.patiently(ctx, "target", func() (err error) { target, err = c.to.Bounds(ctx, c.partition); return err })
	if err != nil {
		return err
	}
	err = c.patiently(ctx, "target", func() error { return c.m.checkEmpty(ctx, c.to, c.partition, &c.s.state) })
	if err != nil {
		return err
	}
	switch {
	case target.Next == 0 && c.s.Records > 0:
		c.m.c.Logger.Warn("the target has nothing of what was copied to it; the mirror begins anew",
			"topic", c.m.c.Topic, "storage", c.storage, "partition", c.partition, "records", c.s.Records)
		c.s.state = newState(source.First)
		return c.settle(ctx)
	case target.Next < c.s.Records:
		return fmt.Errorf("%d records were copied to the target, which ends at offset %d: it is not the one that they were copied to; delete the topic there, and all is copied again: %w",
			c.s.Records, target.Next, fault.Conflict)
	case source.Next < c.s.taken():
		return c.replaced(source.Next)
	}
	return nil
}

func (c *copier) replaced(end int64) error {
	return fmt.Errorf("the source was copied up to offset %d and ends at %d: it is not the one that was copied; delete the topic at the target, and all is copied again: %w",
		c.s.taken(), end, fault.Conflict)
}

// finishWindow sends again what an earlier mirror may have left half done: the same records under
// the same numbers.
func (c *copier) finishWindow(ctx context.Context) error {
	if len(c.s.Window) == 0 {
		return nil
	}
	batches := make([]planned, 0, len(c.s.Window))
	for _, sp := range c.s.Window {
		p := planned{span: sp}
		for at := sp.From; at < sp.To && len(p.records) < sp.Records; {
			err := c.patiently(ctx, "source", func() (err error) {
				p.records, at, err = c.readOn(ctx, at, p.records)
				return err
			})
			if err != nil {
				return err
			}
		}
		if len(p.records) < sp.Records {
			return fmt.Errorf("the source has %d records from offset %d to %d; %d were on their way: %w", len(p.records), sp.From, sp.To, sp.Records, fault.Corrupt)
		}
		p.records = p.records[:sp.Records]
		batches = append(batches, p)
	}
	return c.send(ctx, batches)
}

// readOn reads records that were there before. That there is nothing is a source that has lost them,
// or one that can't show them just now.
func (c *copier) readOn(ctx context.Context, at int64, dst []commitlog.Record) ([]commitlog.Record, int64, error) {
	recs, next, err := c.from.Read(ctx, c.partition, at, dst, &commitlog.ReadOptions{MaxBytes: c.m.c.BatchBytes})
	if err != nil || next > at {
		return recs, next, err
	}
	b, err := c.from.Bounds(ctx, c.partition)
	switch {
	case err != nil:
		return dst, at, err
	case b.Next <= at:
		return dst, at, c.replaced(b.Next)
	}
	return dst, at, fmt.Errorf("the source ends at offset %d and can't be read from %d on: %w", b.Next, at, fault.Unavailable)
}

// plan reads as many appends as fit into a window. end says that the source ends here for ever.
func (c *copier) plan(ctx context.Context) (batches []planned, end bool, err error) {
	at := c.s.From
	c.doubt = c.from.Doubt()
	for len(batches) < window {
		var recs []commitlog.Record
		next := at
		err := c.patiently(ctx, "source", func() (err error) {
			recs, next, err = c.from.Read(ctx, c.partition, at, nil, &commitlog.ReadOptions{MaxBytes: c.m.c.BatchBytes})
			return err
		})
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
		for len(recs) > 0 && len(batches) < window {
			n := min(len(recs), batchRecords)
			to := next
			if n < len(recs) {
				to = recs[n].Offset
			}
			batches = append(batches, planned{span{recs[0].Offset, to, n}, recs[:n:n]})
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

// note keeps the sum of what is still to be copied.
func (c *copier) note(end int64) {
	c.end = max(end, c.end)
	behind := max(0, c.end-c.s.From)
	c.m.pending.Add(behind - c.behind)
	c.behind = behind
}

// move writes down what will be appended, and appends it.
//
// The state may outlive what the source has not made durable, and other records would get those offsets and pass
// for copied. So that is done first; what was taken back meanwhile is read again.
func (c *copier) move(ctx context.Context, batches []planned) error {
	if err := c.patiently(ctx, "source", func() error { return c.from.Settle(ctx) }); err != nil || c.from.Doubt() != c.doubt {
		return err
	}
	c.s.Window = c.s.Window[:0]
	for _, b := range batches {
		c.s.Window = append(c.s.Window, b.span)
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	return c.send(ctx, batches)
}

// settle writes the state.
func (c *copier) settle(ctx context.Context) error {
	return c.patiently(ctx, "registry of the target", func() error { return c.m.writeState(ctx, c.s) })
}

// send appends a window until all of it is there.
func (c *copier) send(ctx context.Context, batches []planned) error {
	firsts := make([]int64, len(batches))
	done := 0
	err := c.patiently(ctx, "target", func() error {
		errs := c.fly(ctx, batches[done:], firsts[done:], c.s.Sequence+int64(done))
		for _, err := range errs { // what follows a failure left a gap
			if err != nil {
				return err
			}
			done++
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, b := range batches {
		if firsts[i] >= 0 { // a log may have forgotten where it put a duplicate
			c.s.anchored(b.From, firsts[i])
		}
		c.s.Records += int64(b.span.Records)
		c.s.Sequence++
		c.s.From = b.To
		c.m.records.Add(int64(b.span.Records))
		for j := range b.records {
			c.m.bytes.Add(int64(commitlog.RecordBytes(&b.records[j])))
		}
	}
	c.s.Window = nil
	c.note(c.end)
	return nil
}

// fly appends batches one behind the other and waits for all.
func (c *copier) fly(ctx context.Context, batches []planned, firsts []int64, sequence int64) []error {
	errs := make([]error, len(batches))
	var answers sync.WaitGroup
	for i := range batches {
		answers.Add(1)
		p := commitlog.Producer{ID: c.s.Producer, Epoch: c.s.Epoch, Sequence: sequence + int64(i)}
		c.to.AppendAsync(ctx, c.partition, batches[i].records, &commitlog.AppendOptions{Producer: p}, func(first int64, err error) {
			firsts[i], errs[i] = first, err
			answers.Done()
		})
	}
	answers.Wait()
	return errs
}
