// Package logtest is the conformance suite of commitlog: the contract of every log backend, as tests against
// the real store.
//
//	func TestConformance(t *testing.T) {
//		logtest.Run(t, logtest.Harness{Store: func(t testing.TB) func() *commitlog.Log {
//			dir := t.TempDir()
//			return func() *commitlog.Log { … open a log on dir … }
//		}})
//	}
package logtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
)

// Harness is a backend under test.
type Harness struct {
	// Store makes an empty store and returns what opens a log on it. Each call of that gives one
	// more log, as another process would have it; the suite closes them. It fails t when it can't.
	Store    func(t testing.TB) (open func() *commitlog.Log)
	Features Features
	// InMemory: the log waits for channels, conditions and timers of this process only. Each test runs in
	// a bubble of testing/synctest, where time passes at once when nothing else happens: what never
	// comes is noticed without waiting for it.
	InMemory bool
}

// Features are what a backend does not do, or not exactly. The zero value does everything.
type Features struct {
	// SingleLog: a store can be open once at a time only.
	SingleLog bool
	// EventualDelete: handles of a deleted topic may go on for a while.
	EventualDelete bool
	// EventualLists: a topic that was deleted may be listed for a moment.
	EventualLists bool
	// EventualTrim: Trim and Hold may act later, or on coarser units than records.
	EventualTrim bool
	// CoarseRetention: retention drops what is too large for a test to fill, or looks only when a
	// hold is stored. That it drops anything is for the backend's own tests to show.
	CoarseRetention bool
	// NoProducers: (id, sequence) of a Producer is not kept.
	NoProducers bool
	// SequencesInRecords: a process that takes a producer over learns its sequence from its records, and
	// refuses it as fault.Invalid when they were all trimmed.
	SequencesInRecords bool
	// EpochsOfPartitions: a higher epoch of a producer fences the lower ones partition by partition,
	// from its first append on that is stored.
	EpochsOfPartitions bool
	// CoarseOffsetAt: OffsetAt may answer a lower offset than the exact one.
	CoarseOffsetAt bool
	// MaxRecordBytes: the largest record that the store takes; 0: commitlog.MaxRecordBytes.
	MaxRecordBytes int
	// MaxBatchRecords: the most records in one append that the store takes; 0: commitlog.MaxBatchRecords.
	MaxBatchRecords int
	// Slow: a round trip takes milliseconds; the suite does less of everything.
	Slow bool
}

// Run runs the whole suite as subtests of t, in parallel.
func Run(t *testing.T, h Harness) {
	if h.Features.MaxRecordBytes == 0 {
		h.Features.MaxRecordBytes = commitlog.MaxRecordBytes
	}
	if h.Features.MaxBatchRecords == 0 {
		h.Features.MaxBatchRecords = commitlog.MaxBatchRecords
	}
	for _, group := range [][]test{topicTests, appendTests, readTests, waitTests, sealTests, producerTests, trimTests, closeTests, modelTests} {
		for _, test := range group {
			if test.needs != nil && !test.needs(h.Features) {
				continue
			}
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				if h.InMemory {
					synctest.Test(t, func(t *testing.T) { h.run(t, test) })
					return
				}
				h.run(t, test)
			})
		}
	}
}

func (h Harness) run(t *testing.T, test test) {
	// It ends a call that would never end; a machine that has other things to do is no reason to fail.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	test.run(&env{T: t, h: h, ctx: ctx, open: h.Store(t)})
}

type test struct {
	name  string
	needs func(Features) bool // nil: runs always
	run   func(*env)
}

func hasProducers(f Features) bool { return !f.NoProducers }
func topicEpochs(f Features) bool  { return !f.NoProducers && !f.EpochsOfPartitions }
func strictDelete(f Features) bool { return !f.EventualDelete }
func strictTrim(f Features) bool   { return !f.EventualTrim }

// env is one test on a store of its own.
type env struct {
	*testing.T
	h    Harness
	ctx  context.Context //nolint:containedctx // the test's own
	open func() *commitlog.Log
}

// n scales the amount of work to the store.
func (e *env) n(fast, slow int) int {
	if e.h.Features.Slow {
		return slow
	}
	return fast
}

// log opens a log that is closed when the test ends, at the latest.
func (e *env) log() *commitlog.Log {
	l := e.open()
	e.Cleanup(func() {
		if err := l.Close(); err != nil {
			e.Errorf("close the log: %v", err)
		}
	})
	return l
}

const topicName = "topic"

// topic creates the test's topic where it is missing, and opens it.
func (e *env) topic(l *commitlog.Log, partitions int) *commitlog.Topic {
	e.Helper()
	e.must(l.CreateTopic(e.ctx, commitlog.TopicConfig{Name: topicName, Partitions: partitions}))
	return e.openTopic(l)
}

func (e *env) openTopic(l *commitlog.Log) *commitlog.Topic {
	e.Helper()
	t, err := l.Topic(e.ctx, topicName)
	e.must(err)
	return t
}

// two gives two handles of the same topic, of two logs where the store can, and the first log.
func (e *env) two(partitions int) (l *commitlog.Log, a, b *commitlog.Topic) {
	e.Helper()
	l = e.log()
	a = e.topic(l, partitions)
	if e.h.Features.SingleLog {
		return l, a, e.openTopic(l)
	}
	return l, a, e.openTopic(e.log())
}

// errOf is the error of a call whose value is of no interest.
func errOf[T any](_ T, err error) error { return err }

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func (e *env) wantIs(err, kind error) {
	e.Helper()
	if !errors.Is(err, kind) {
		e.Errorf("error: %v; want one that is %q", err, kind)
	}
}

// wantAll makes each call of a handle that is of no use any more: all have to fail alike.
func (e *env) wantAll(t *commitlog.Topic, kind error) {
	e.Helper()
	e.wantIs(errOf(t.Append(e.ctx, 0, records("late"), nil)), kind)
	_, _, err := t.Read(e.ctx, 0, 0, nil, nil)
	e.wantIs(err, kind)
	e.wantIs(e.wait(e.ctx, t, 0, 1<<40), kind)
	e.wantIs(errOf(t.Bounds(e.ctx, 0)), kind)
	e.wantIs(errOf(t.Seal(e.ctx)), kind)
	e.wantIs(errOf(t.OffsetAt(e.ctx, 0, 0)), kind)
	e.wantIs(t.Trim(e.ctx, 0, 0), kind)
}

// outcome is what an append of a value was answered.
type outcome struct {
	value string
	first int64
	err   error
}

// wantOutcome compares an answer with what a partition holds: by value, the offset.
func (e *env) wantOutcome(o outcome, stored map[string]int64) {
	e.Helper()
	at, ok := stored[o.value]
	switch {
	case o.err == nil && (!ok || at != o.first):
		e.Errorf("%s was acked at %d; it is stored: %v, at %d", o.value, o.first, ok, at)
	case o.err != nil && !errors.Is(o.err, commitlog.ErrUnknown) && ok:
		e.Errorf("%s certainly failed (%v) and is stored at %d", o.value, o.err, at)
	}
}

// add appends one batch with these values and returns its first offset.
func (e *env) add(t *commitlog.Topic, partition int, values ...string) int64 {
	e.Helper()
	first, err := t.Append(e.ctx, partition, records(values...), nil)
	e.must(err)
	return first
}

func records(values ...string) []commitlog.Record {
	recs := make([]commitlog.Record, len(values))
	for i, v := range values {
		recs[i] = commitlog.Record{Key: []byte("k" + v), Value: []byte(v)}
	}
	return recs
}

func (e *env) bounds(t *commitlog.Topic, partition int) commitlog.Bounds {
	e.Helper()
	b, err := t.Bounds(e.ctx, partition)
	e.must(err)
	return b
}

// first is the lowest offset of a partition; not every log starts at 0.
func (e *env) first(t *commitlog.Topic, partition int) int64 {
	e.Helper()
	return e.bounds(t, partition).First
}

// all reads what a handle sees of a partition now.
func (e *env) all(t *commitlog.Topic, partition int) []commitlog.Record {
	e.Helper()
	b := e.bounds(t, partition)
	return e.upTo(t, partition, b.First, b.Next)
}

// patience is how long something may take to end that has every reason to.
const patience = 30 * time.Second

// wait is t.Wait where there is a reason to end: when it goes on all the same, it fails the test, and does
// not hang with it.
func (e *env) wait(ctx context.Context, t *commitlog.Topic, partition int, offset int64) error {
	e.Helper()
	got := make(chan error, 1)
	go func() { got <- t.Wait(ctx, partition, offset) }() // ends with the log, at the latest
	select {
	case err := <-got:
		return err
	case <-time.After(patience):
		e.Fatalf("Wait(%d) goes on for %s though it has every reason to end", offset, patience)
		return nil
	}
}

// upTo reads from an offset until the next one is end or more, waiting where a handle does not
// see as far yet.
func (e *env) upTo(t *commitlog.Topic, partition int, from, end int64) []commitlog.Record {
	e.Helper()
	recs, err := read(e.ctx, t, partition, from, end)
	e.must(err)
	return recs
}

func read(ctx context.Context, t *commitlog.Topic, partition int, from, end int64) ([]commitlog.Record, error) {
	var recs []commitlog.Record
	for at := from; at < end; {
		had := len(recs)
		got, next, err := t.Read(ctx, partition, at, recs, nil)
		if err != nil {
			return nil, fmt.Errorf("read from %d: %w", at, err)
		}
		for _, r := range got[had:] {
			if r.Offset < at {
				return nil, fmt.Errorf("read from %d returned offset %d after or below it", at, r.Offset)
			}
			at = r.Offset + 1
		}
		if next < at {
			return nil, fmt.Errorf("read returned offsets up to %d, but %d to go on from", at-1, next)
		}
		if len(got) == had && next == at {
			if err := t.Wait(ctx, partition, at); err != nil {
				return nil, fmt.Errorf("wait for %d of %d: %w", at, end, err)
			}
		}
		recs, at = got, next
	}
	return recs, nil
}

func values(recs []commitlog.Record) []string {
	list := make([]string, len(recs))
	for i, r := range recs {
		list[i] = string(r.Value)
	}
	return list
}

func (e *env) wantValues(recs []commitlog.Record, want ...string) {
	e.Helper()
	if got := values(recs); fmt.Sprint(got) != fmt.Sprint(want) {
		e.Errorf("values %.300q; want %.300q", fmt.Sprint(got), fmt.Sprint(want))
	}
}
