package topic

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/commitlog"
)

// Extent is the content of a partition, as the log or some reads estimate it. Offsets say little of it: a log may
// leave out most of them, as Pulsar does, which continues elsewhere with each ledger.
type Extent struct {
	commitlog.Bounds
	Expired   int64     // what lies below is too old
	Bytes     float64   // of all
	stretches []stretch // in the order of their offsets
}

// stretch is a part of a partition of which the beginning was read. Between two of them the
// partition is empty.
type stretch struct {
	from, read     int64 // offsets of what was read
	until          int64 // the unread rest is taken to be like what was read
	records, bytes float64
}

// times is the ratio of the whole stretch to what was read of it.
func (s *stretch) times() float64 { return float64(s.until-s.from) / float64(s.read-s.from) }

// unread estimates the bytes that were not read.
func (s *stretch) unread() float64 { return s.bytes * (s.times() - 1) }

const (
	sampleBytes = 64 << 10
	// fineEnough is the largest part of all bytes that may lie unread in a row.
	fineEnough = 1.0 / 16
	// mostReads bounds the reads of an estimate.
	mostReads = 96
)

// extentsAtOnce is how many partitions are looked at together.
const extentsAtOnce = 8

// ExtentsOf is ExtentOf for each partition.
func ExtentsOf(ctx context.Context, log *commitlog.Topic, partitions int, r Retention) ([]Extent, error) {
	parts, errs := make([]Extent, partitions), make([]error, partitions)
	limit := make(chan struct{}, extentsAtOnce)
	var looks sync.WaitGroup
	for p := range parts {
		limit <- struct{}{}
		looks.Go(func() { // joined below
			parts[p], errs[p] = ExtentOf(ctx, log, p, r)
			<-limit
		})
	}
	looks.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// ExtentOf estimates how large a partition is, and how much of it is too old.
func ExtentOf(ctx context.Context, log *commitlog.Topic, partition int, r Retention) (Extent, error) {
	var e Extent
	var err error
	if e.Bounds, err = log.Bounds(ctx, partition); err != nil {
		return e, err
	}
	e.Expired = e.First
	if r.AgeMS > 0 {
		at, err := log.OffsetAt(ctx, partition, time.Now().UnixMilli()-r.AgeMS)
		if err != nil {
			return e, err
		}
		e.Expired = max(at, e.First)
	}
	known, ok, err := log.Measure(ctx, partition)
	if ok || err != nil {
		e.know(known)
		return e, err
	}
	err = e.measure(func(at int64, recs []commitlog.Record) ([]commitlog.Record, int64, error) {
		return log.Read(ctx, partition, at, recs, &commitlog.ReadOptions{MaxBytes: sampleBytes})
	})
	return e, err
}

// know takes over what the log reports.
func (e *Extent) know(stretches []commitlog.Stretch) {
	for _, s := range stretches {
		e.stretches = append(e.stretches, stretch{from: s.From, read: s.Until, until: s.Until, records: s.Records, bytes: s.Bytes})
		e.Bytes += s.Bytes
	}
}

// measure reads where the most bytes are unread, until few enough are.
func (e *Extent) measure(read func(int64, []commitlog.Record) ([]commitlog.Record, int64, error)) error {
	var recs []commitlog.Record
	at, end, into := e.First, e.Next, 0
	for range mostReads {
		if at >= end {
			break
		}
		got, next, err := read(at, recs[:0])
		if err != nil && !errors.Is(err, commitlog.ErrOutOfRange) && !errors.Is(err, commitlog.ErrCorrupt) {
			return err
		}
		if s, ok := stretchOf(got, next, end); ok {
			e.stretches = slices.Insert(e.stretches, into, s)
		} else if len(e.stretches) == 0 { // control records, or damage
			at = max(next, at+1)
			continue
		}
		recs = got
		e.Bytes = 0
		most, largest := 0.0, 0
		for i := range e.stretches {
			s := &e.stretches[i]
			e.Bytes += s.bytes + s.unread()
			if n := s.unread(); n > most {
				most, largest = n, i
			}
		}
		if most <= e.Bytes*fineEnough {
			break
		}
		s := &e.stretches[largest]
		at, end, into = s.read+(s.until-s.read)/2, s.until, largest+1
		s.until = at
	}
	return nil
}

// stretchOf is what a read found below end; false: nothing.
func stretchOf(recs []commitlog.Record, next, end int64) (stretch, bool) {
	if len(recs) == 0 || recs[0].Offset >= end {
		return stretch{}, false
	}
	s := stretch{from: recs[0].Offset, read: min(next, end), until: end}
	for i := range recs {
		if recs[i].Offset < end {
			s.records++
			s.bytes += float64(commitlog.RecordBytes(&recs[i]))
		}
	}
	return s, true
}

// After is the offset below which so many bytes lie.
func (e *Extent) After(bytes float64) int64 {
	at := e.First
	for i := range e.stretches {
		s := &e.stretches[i]
		if bytes <= 0 {
			break
		}
		all := s.bytes + s.unread()
		part := min(1, bytes/max(all, 1))
		at = s.from + int64(math.Ceil(part*float64(s.until-s.from)-1e-6))
		bytes -= all
	}
	return at
}

// Count estimates the records between two offsets, and their bytes.
func (e *Extent) Count(from, to int64) (records, bytes int64) {
	r, b := 0.0, 0.0
	for i := range e.stretches {
		s := &e.stretches[i]
		if n := min(to, s.until) - max(from, s.from); n > 0 {
			part := float64(n) / float64(s.read-s.from)
			r, b = r+s.records*part, b+s.bytes*part
		}
	}
	return int64(math.Round(r)), int64(math.Round(b))
}
