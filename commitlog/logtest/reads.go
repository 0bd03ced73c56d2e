package logtest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/ringfence/ringfence/commitlog"
)

var readTests = []test{
	{"Read/StartsAnywhere", nil, readAnywhere},
	{"Read/KeepsToTheBudget", nil, readBudget},
	{"Read/AppendsToDst", nil, readDst},
	{"Read/MayUseTheCallersBuffer", nil, readBuf},
	{"Read/ReturnsMemoryThatNeverChanges", nil, readOwnership},
	{"Read/GivesEachOfManyReadersItsPlace", nil, readMany},
	{"Read/GivesWhatLiesBehindWhatItLeft", nil, readBehind},
	{"Read/OutsideOfTheBoundsIsOutOfRange", nil, readOutside},
	{"Read/TellsARecordThatWasLost", nil, readLost},
	{"Read/OffsetAtFindsTheFirstRecordOfATime", nil, offsetAt},
}

func fill(e *env, t *commitlog.Topic, n int) []commitlog.Record {
	e.Helper()
	for i := 0; i < n; {
		batch := []string{}
		for range 1 + i%3 {
			batch = append(batch, fmt.Sprintf("value %d", i))
			i++
		}
		e.add(t, 0, batch...)
	}
	return e.all(t, 0)
}

func readAnywhere(e *env) {
	t := e.topic(e.log(), 1)
	all := fill(e, t, e.n(100, 20))
	for i, r := range all {
		got := e.upTo(t, 0, r.Offset, all[len(all)-1].Offset+1)
		if !reflect.DeepEqual(got, all[i:]) {
			e.Fatalf("a read from offset %d gives %d records; want %d", r.Offset, len(got), len(all)-i)
		}
	}
	end := e.bounds(t, 0).Next
	got, next, err := t.Read(e.ctx, 0, end, nil, nil)
	if len(got) != 0 || next != end || err != nil {
		e.Errorf("a read at the end gives %d records, next %d, %v; want none, %d, nil", len(got), next, err, end)
	}
}

func readBudget(e *env) {
	t := e.topic(e.log(), 1)
	for range 40 {
		e.add(t, 0, string(bytes.Repeat([]byte("x"), 500)))
	}
	const size = 1 + 500 + 500 // of a record: its key is "k" and the value
	for _, budget := range []int{1, size, 5 * size, 5*size + 1} {
		got, _, err := t.Read(e.ctx, 0, e.first(t, 0), nil, &commitlog.ReadOptions{MaxBytes: budget})
		e.must(err)
		if want := max(1, budget/size); len(got) < 1 || len(got) > want+3 {
			e.Errorf("a budget of %d bytes gives %d records of %d; want about %d", budget, len(got), size, want)
		}
	}
	at, n := e.first(t, 0), 0
	for n < 40 {
		got, next, err := t.Read(e.ctx, 0, at, nil, &commitlog.ReadOptions{MaxBytes: 1})
		e.must(err)
		if len(got) == 0 {
			e.Fatalf("a read with a small budget gives nothing at %d", at)
		}
		at, n = next, n+len(got)
	}
}

func readDst(e *env) {
	t := e.topic(e.log(), 1)
	e.add(t, 0, "a", "b")
	dst := []commitlog.Record{{Value: []byte("mine"), Offset: 77}}
	got, at := dst, e.first(t, 0)
	for len(got) < 3 && at < e.bounds(t, 0).Next { // a read may give a part
		var err error
		got, at, err = t.Read(e.ctx, 0, at, got, nil)
		e.must(err)
	}
	e.wantValues(got, "mine", "a", "b")
	got, next, err := t.Read(e.ctx, 0, e.bounds(t, 0).Next+1, dst, nil)
	if len(got) != 1 || next != e.bounds(t, 0).Next+1 || err == nil {
		e.Errorf("a read that fails gives %d records and next %d, %v; want dst and the same offset", len(got), next, err)
	}
}

func readLost(e *env) {
	l := e.log()
	t := e.topic(l, 1)
	all := fill(e, t, e.n(40, 8))
	again, err := l.Topic(e.ctx, t.Config().Name)
	e.must(err)
	lost := func(r *commitlog.Record, time, next int64) bool {
		gone, err := again.Lost(e.ctx, 0, r.Offset, time, next)
		e.must(err)
		return gone
	}
	for i := range all {
		r, next := &all[i], e.bounds(t, 0).Next
		if i+1 < len(all) {
			next = all[i+1].Offset
			if !lost(r, r.Timestamp, next+1) {
				e.Errorf("offset %d counts as the last one before %d", r.Offset, next+1)
			}
		}
		if lost(r, r.Timestamp, next) || !lost(r, r.Timestamp+1, next) {
			e.Errorf("offset %d: the record at %d counts as another one, or one of another time as that", r.Offset, r.Timestamp)
		}
	}
	e.must(t.Trim(e.ctx, 0, all[1].Offset))
	if e.bounds(t, 0).First > all[0].Offset && lost(&all[0], all[0].Timestamp+1, all[1].Offset) {
		e.Errorf("a record that was dropped counts as lost")
	}
	e.must(again.Close())
}

func readBuf(e *env) {
	t := e.topic(e.log(), 1)
	all := fill(e, t, 60)
	for _, size := range []int{0, 1, 100, 1 << 20} {
		buf := make([]byte, size)
		var dst []commitlog.Record
		for i, at := 0, e.first(t, 0); i < len(all); {
			got, next, err := t.Read(e.ctx, 0, at, dst[:0], &commitlog.ReadOptions{Buf: buf, MaxBytes: 200})
			e.must(err)
			if len(got) == 0 || i+len(got) > len(all) || !reflect.DeepEqual(got, all[i:i+len(got)]) {
				e.Fatalf("with a buffer of %d bytes the records from %d are %q", size, at, values(got))
			}
			dst, at, i = got, next, i+len(got)
		}
	}
}

func readOwnership(e *env) {
	t := e.topic(e.log(), 1)
	all := fill(e, t, 30)
	want := values(all)
	fill(e, t, 30)
	e.all(t, 0)
	e.wantValues(all, want...)
	for _, r := range all {
		clear(r.Value)
		clear(r.Key)
	}
	e.wantValues(e.all(t, 0)[:30], want...)
}

// A read of one record gives it, beside whatever other reads there: only a log that has nothing there gives
// nothing.
func readMany(e *env) {
	t := e.topic(e.log(), 1)
	all := fill(e, t, 40)
	var readers sync.WaitGroup
	for reader := range 12 {
		readers.Go(func() {
			for i := range e.n(100, 6) {
				want := &all[(reader*7+i*11)%len(all)]
				got, _, err := t.Read(e.ctx, 0, want.Offset, nil, &commitlog.ReadOptions{MaxBytes: 1})
				if err != nil || len(got) == 0 || !reflect.DeepEqual(&got[0], want) {
					e.Errorf("a read at %d, beside eleven others, gives %d records, %v", want.Offset, len(got), err)
					return
				}
			}
		})
	}
	readers.Wait()
}

// What a log keeps of an earlier read is not all that there is.
func readBehind(e *env) {
	t := e.topic(e.log(), 1)
	for round := range e.n(20, 4) {
		first := e.add(t, 0, "a", "b", "c", "d")
		got, _, err := t.Read(e.ctx, 0, first, nil, &commitlog.ReadOptions{MaxBytes: 1})
		e.must(err)
		e.wantValues(got[:1], "a")
		behind := e.add(t, 0, "e", "f")
		got, _, err = t.Read(e.ctx, 0, behind, nil, &commitlog.ReadOptions{MaxBytes: 1})
		if err != nil || len(got) == 0 || string(got[0].Value) != "e" {
			e.Fatalf("round %d: a read at %d, after one at %d, gives %q, %v; want e", round, behind, first, values(got), err)
		}
	}
}

func readOutside(e *env) {
	t := e.topic(e.log(), 2)
	e.add(t, 0, "a", "b")
	b := e.bounds(t, 0)
	for _, offset := range []int64{-1, b.Next + 1, b.Next + 1<<40} {
		_, _, err := t.Read(e.ctx, 0, offset, nil, nil)
		var out *commitlog.OutOfRangeError
		if !errors.Is(err, commitlog.ErrOutOfRange) || !errors.As(err, &out) {
			e.Fatalf("a read at %d gives %v; want *OutOfRangeError", offset, err)
		}
		if out.Topic != topicName || out.Partition != 0 || out.Offset != offset || out.First != b.First || out.End != b.Next {
			e.Errorf("a read at %d of [%d, %d) reports %+v", offset, b.First, b.Next, out)
		}
	}
	if b := e.bounds(t, 1); b.First != b.Next || b.Sealed {
		e.Errorf("bounds of an empty partition: %+v", b)
	}
}

func offsetAt(e *env) {
	t := e.topic(e.log(), 1)
	for i := range 40 {
		e.must(errOf(t.Append(e.ctx, 0, []commitlog.Record{{Timestamp: int64(1000 + 10*(i/2)), Value: []byte{byte(i)}}}, nil)))
	}
	all := e.all(t, 0)
	for _, millis := range []int64{0, 1000, 1001, 1010, 1011, 1185, 1190, 1191, 1 << 41} {
		want := e.bounds(t, 0).Next
		for _, r := range all {
			if r.Timestamp >= millis {
				want = r.Offset
				break
			}
		}
		got, err := t.OffsetAt(e.ctx, 0, millis)
		e.must(err)
		if got > want || got < want && !e.h.Features.CoarseOffsetAt {
			e.Errorf("offset at %d is %d; want %d", millis, got, want)
		}
	}
}
