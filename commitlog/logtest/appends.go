package logtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/commitlog"
)

var appendTests = []test{
	{"Append/ReturnsTheOffsetThatReadsGive", nil, appendOffsets},
	{"Append/PartitionsAreIndependent", nil, appendPartitions},
	{"Append/KeepsEveryField", nil, appendFields},
	{"Append/SetsAMissingTimestamp", nil, appendTimestamp},
	{"Append/TakesTheLimitsAndRefusesMore", nil, appendLimits},
	{"Append/BatchesOfOneGoroutineKeepTheirOrder", nil, appendOrder},
	{"Append/BatchesAreAtomicAndAdjacent", nil, appendConcurrently},
	{"Append/DoesNotKeepTheCallersMemory", nil, appendOwnership},
	{"Append/ACancelledContextLeavesNoTrace", nil, appendCancelled},
	{"Append/AnOffsetMeansOneValueForEverybody", nil, appendStable},
}

func appendOffsets(e *env) {
	t := e.topic(e.log(), 1)
	if got := e.all(t, 0); len(got) != 0 {
		e.Errorf("a new topic has %q", values(got))
	}
	last := int64(-1)
	var want []string
	for i := range e.n(50, 10) {
		batch := []string{}
		for j := range 1 + i%4 {
			batch = append(batch, fmt.Sprintf("%d.%d", i, j))
		}
		first := e.add(t, 0, batch...)
		if first <= last {
			e.Fatalf("append %d got offset %d after %d", i, first, last)
		}
		got := e.upTo(t, 0, first, first+1)
		if len(got) < 1 || got[0].Offset != first || string(got[0].Value) != batch[0] {
			e.Fatalf("append %d got offset %d, but a read from there gives %v", i, first, got)
		}
		last = first + int64(len(batch)) - 1
		want = append(want, batch...)
	}
	e.wantValues(e.all(t, 0), want...)
}

func appendPartitions(e *env) {
	t := e.topic(e.log(), 7)
	for i := range 21 {
		e.add(t, i%7, fmt.Sprint(i))
	}
	for p := range 7 {
		e.wantValues(e.all(t, p), fmt.Sprint(p), fmt.Sprint(p+7), fmt.Sprint(p+14))
	}
	for _, p := range []int{-1, 7, math.MaxInt32} {
		e.wantIs(errOf(t.Append(e.ctx, p, records("x"), nil)), commitlog.ErrInvalid)
		_, _, err := t.Read(e.ctx, p, 0, nil, nil)
		e.wantIs(err, commitlog.ErrInvalid)
		e.wantIs(t.Wait(e.ctx, p, 0), commitlog.ErrInvalid)
	}
}

func appendFields(e *env) {
	t := e.topic(e.log(), 1)
	in := []commitlog.Record{
		{Timestamp: 1, Key: []byte("key"), Value: []byte("value")},
		{Timestamp: 2, Key: nil, Value: []byte("no key")},
		{Timestamp: 3, Key: []byte{}, Value: []byte("empty key")},
		{Timestamp: 4, Key: []byte("a\x00b\xff"), Value: []byte{0, 1, 2, 255}},
		{Timestamp: 5, Key: []byte("empty value"), Value: []byte{}},
		{Timestamp: 1 << 42, Key: []byte("headers"), Value: []byte("v"), Headers: []commitlog.Header{
			{Name: "b", Value: []byte("1")}, {Name: "a", Value: []byte("2")}, {Name: "b", Value: []byte("3")}, {Name: "", Value: []byte("\x00")}, {Name: "empty", Value: []byte{}},
		}},
		{Timestamp: 5, Key: []byte("later in the log, earlier in time"), Value: bytes.Repeat([]byte("long "), 5000)},
	}
	e.must(errOf(t.Append(e.ctx, 0, in, nil)))
	for i, got := range e.all(t, 0) {
		if !same(got, in[i]) {
			e.Errorf("record %d is %.300q; want %.300q", i, fmt.Sprint(got), fmt.Sprint(in[i]))
		}
	}
}

// same compares all but the offsets of two records.
func same(a, b commitlog.Record) bool {
	return a.Timestamp == b.Timestamp && (a.Key == nil) == (b.Key == nil) && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) &&
		slices.EqualFunc(a.Headers, b.Headers, func(a, b commitlog.Header) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) })
}

func appendTimestamp(e *env) {
	t := e.topic(e.log(), 1)
	before := time.Now().UnixMilli()
	e.add(t, 0, "x")
	after := time.Now().UnixMilli()
	const skew = 5 // a log may take a coarse clock, and a server its own
	slack := int64(e.n(skew, 60_000))
	if got := e.all(t, 0)[0].Timestamp; got < before-slack || got > after+slack {
		e.Errorf("timestamp %d; want one from %d to %d", got, before, after)
	}
}

func appendLimits(e *env) {
	t := e.topic(e.log(), 1)
	big := commitlog.Record{Key: bytes.Repeat([]byte("k"), min(commitlog.MaxKeyBytes, e.h.Features.MaxRecordBytes/2))}
	big.Value = make([]byte, e.h.Features.MaxRecordBytes-len(big.Key))
	for i := range big.Value {
		big.Value[i] = byte(i * 7 >> 3)
	}
	headers := commitlog.Record{Value: []byte("many headers"), Headers: make([]commitlog.Header, commitlog.MaxHeaders)}
	many := make([]commitlog.Record, min(e.n(commitlog.MaxBatchRecords, 2000), e.h.Features.MaxBatchRecords))
	in := [][]commitlog.Record{{{}}, {big}, {headers}, many}
	total := 0
	for _, batch := range in {
		e.must(errOf(t.Append(e.ctx, 0, batch, nil)))
		total += len(batch)
	}
	got := e.all(t, 0)
	if len(got) != total || !bytes.Equal(got[1].Value, big.Value) || !bytes.Equal(got[1].Key, big.Key) || len(got[2].Headers) != commitlog.MaxHeaders {
		e.Errorf("%d records came back, of %d", len(got), total)
	}
	end := e.bounds(t, 0).Next
	for name, batch := range map[string][]commitlog.Record{
		"no records":       nil,
		"too many records": make([]commitlog.Record, commitlog.MaxBatchRecords+1),
		"a key too large":  {{Key: make([]byte, commitlog.MaxKeyBytes+1)}},
		"a value too":      {{Value: make([]byte, commitlog.MaxRecordBytes+1)}},
		"too many headers": {{Headers: make([]commitlog.Header, commitlog.MaxHeaders+1)}},
		"a batch too":      {{Value: make([]byte, commitlog.MaxRecordBytes)}, {Value: make([]byte, commitlog.MaxRecordBytes)}, {Value: []byte{1}}},
	} {
		if _, err := t.Append(e.ctx, 0, batch, nil); !errors.Is(err, commitlog.ErrInvalid) {
			e.Errorf("append with %s large: %v; want ErrInvalid", name, err)
		}
	}
	if now := e.bounds(t, 0).Next; now != end {
		e.Errorf("refused appends moved the end from %d to %d", end, now)
	}
}

func appendOrder(e *env) {
	_, a, b := e.two(2)
	n := e.n(1500, 100)
	var wg sync.WaitGroup
	firsts, calls := make([]int64, n), make([]atomic.Int32, n)
	for i := range n {
		wg.Add(1)
		a.AppendAsync(e.ctx, i%2, records(fmt.Sprint(i)), nil, func(first int64, err error) {
			if calls[i].Add(1) > 1 {
				return
			}
			defer wg.Done()
			if err != nil {
				e.Errorf("append %d: %v", i, err)
			}
			firsts[i] = first
		})
	}
	wg.Wait()
	for i := range n {
		if calls := calls[i].Load(); calls != 1 {
			e.Fatalf("done of append %d was called %d times", i, calls)
		}
		if i >= 2 && firsts[i] <= firsts[i-2] {
			e.Fatalf("append %d got offset %d, the one before it %d", i, firsts[i], firsts[i-2])
		}
	}
	for p := range 2 {
		recs := e.upTo(b, p, e.first(b, p), firsts[n-2+p]+1)
		if len(recs) != n/2 {
			e.Fatalf("partition %d has %d records; want %d", p, len(recs), n/2)
		}
		for i, r := range recs {
			if want := 2*i + p; string(r.Value) != fmt.Sprint(want) || r.Offset != firsts[want] {
				e.Fatalf("record %d of partition %d is %q at %d; want %d at %d", i, p, r.Value, r.Offset, want, firsts[want])
			}
		}
	}
}

// Several goroutines over several logs append batches; every one stands whole and in order.
func appendConcurrently(e *env) {
	_, a, b := e.two(3)
	const writers, size = 6, 5
	rounds := e.n(30, 5)
	var wg, ready sync.WaitGroup
	ready.Add(writers)
	for w := range writers {
		wg.Go(func() {
			ready.Done()
			ready.Wait() // all at once
			t := []*commitlog.Topic{a, b}[w%2]
			for i := range rounds {
				batch := make([]string, size)
				for j := range batch {
					batch[j] = fmt.Sprintf("%d/%d/%d", w, i, j)
				}
				if _, err := t.Append(e.ctx, w%3, records(batch...), nil); err != nil {
					e.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for p := range 3 {
		end := max(e.bounds(a, p).Next, e.bounds(b, p).Next)
		recs := e.upTo(a, p, e.first(a, p), end)
		if other := e.upTo(b, p, e.first(b, p), end); !reflect.DeepEqual(recs, other) {
			e.Errorf("the two handles read different records of partition %d", p)
		}
		if len(recs) != 2*rounds*size {
			e.Fatalf("partition %d has %d records; want %d", p, len(recs), 2*rounds*size)
		}
		next := map[int]int{}
		for i := 0; i < len(recs); i += size {
			var w, round, j int
			if _, err := fmt.Sscanf(string(recs[i].Value), "%d/%d/%d", &w, &round, &j); err != nil {
				e.Fatalf("partition %d: value %q: %v", p, recs[i].Value, err)
			}
			if round != next[w] {
				e.Fatalf("partition %d: batch %d of writer %d stands where %d was due", p, round, w, next[w])
			}
			next[w]++
			for j := range size {
				if want := fmt.Sprintf("%d/%d/%d", w, round, j); string(recs[i+j].Value) != want {
					e.Fatalf("partition %d: %q stands inside of a batch where %q was due", p, recs[i+j].Value, want)
				}
			}
		}
	}
}

func appendOwnership(e *env) {
	t := e.topic(e.log(), 1)
	rec := commitlog.Record{Key: []byte("key"), Value: []byte("value"), Headers: []commitlog.Header{{Name: "h", Value: []byte("header")}}}
	e.must(errOf(t.Append(e.ctx, 0, []commitlog.Record{rec}, nil)))
	for _, b := range [][]byte{rec.Key, rec.Value, rec.Headers[0].Value} {
		clear(b)
	}
	for range 2 {
		got := e.all(t, 0)[0]
		if string(got.Key) != "key" || string(got.Value) != "value" || string(got.Headers[0].Value) != "header" {
			e.Errorf("the record changed with the caller's memory: %q", fmt.Sprint(got))
		}
		clear(got.Value) // the reader's own
	}
}

func appendCancelled(e *env) {
	t := e.topic(e.log(), 1)
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err := t.Append(ctx, 0, records("never"), nil)
	e.wantIs(err, commitlog.ErrNotAppended)
	e.wantIs(err, context.Canceled)
	e.add(t, 0, "after")
	e.wantValues(e.all(t, 0), "after")
}

func appendStable(e *env) {
	l := e.open()
	t := e.topic(l, 1)
	seen := map[int64]string{}
	check := func(t *commitlog.Topic) {
		e.Helper()
		recs := e.all(t, 0)
		for _, r := range recs {
			if v, ok := seen[r.Offset]; ok && v != string(r.Value) {
				e.Fatalf("offset %d was %q and is %q now", r.Offset, v, r.Value)
			}
			seen[r.Offset] = string(r.Value)
		}
		if len(recs) != len(seen) {
			e.Fatalf("%d offsets were seen, and %d are there now", len(seen), len(recs))
		}
	}
	for round := range e.n(4, 2) {
		for i := range 10 {
			e.add(t, 0, fmt.Sprintf("%d.%d", round, i))
		}
		check(t)
		e.must(l.Close())
		l = e.open()
		t = e.openTopic(l)
		check(t)
	}
	e.must(l.Close())
}
