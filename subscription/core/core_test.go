package core

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script feeds a state with records at the places 0, 1, 2 …
func script(s *State, records ...Record) {
	for i := range records {
		s.Read(int64(i), &records[i])
	}
}

func TestTwoStartsOfOneEpochAndRunDoNotBothCount(t *testing.T) {
	t.Parallel()
	one, two := Tenure{Epoch: 7, Run: 1, Token: 11}, Tenure{Epoch: 7, Run: 1, Token: 22}
	s := New(Config{Set: "s"})
	script(s,
		Record{Kind: Fence, By: one, Seq: 1},
		Record{Kind: Fence, By: two, Seq: 1},
		Record{Kind: Park, By: two, Seq: 2, ID: ID{Origin: Origin{Offset: 4}}, Key: []byte("k")},
		Record{Kind: Park, By: one, Seq: 2, ID: ID{Origin: Origin{Offset: 5}}, Key: []byte("k")},
	)
	if items := s.Items(); len(items) != 1 || items[0].Offset != 5 {
		t.Errorf("parked are %+v; only what the first one wrote counts", items)
	}
	late := New(Config{Set: "s", Tenure: two})
	late.Start()
	late.Effects()
	script(late, Record{Kind: Fence, By: one, Seq: 1}, Record{Kind: Fence, By: two, Seq: 1})
	if got := late.Effects(); !reflect.DeepEqual(got, []Effect{Behind{Seen: one}}) {
		t.Errorf("the second start is told %+v", got)
	}
}

// samples are records of every kind.
func samples() []Record {
	by := Tenure{Epoch: 1700000000000, Run: 3, Token: math.MaxUint64}
	id := ID{Origin: Origin{Storage: 1, Partition: 7, Offset: 1 << 50}, Round: 2}
	return []Record{
		{Kind: Fence, Set: "7f3a", At: 5, By: by, Seq: 1, Member: "host-1"},
		{Kind: Park, Set: "7f3a", At: 5, By: by, Seq: 2, ID: id, Key: []byte("k"), Timestamp: -1, Attempts: 2, Due: 9, Since: 4, Answer: "no"},
		{Kind: Park, Set: "7f3a", At: 5, By: by, Seq: 2, ID: id, Key: []byte{}},
		{Kind: Park, Set: "7f3a", At: 5, By: by, Seq: 3, ID: id},
		{Kind: Try, Set: "7f3a", At: 5, By: by, Seq: 4, ID: id, Attempts: 3, Due: 19, Since: 4, Answer: "no"},
		{Kind: Done, Set: "7f3a", At: 5, By: by, Seq: 5, ID: id},
		{Kind: Dead, Set: "7f3a", At: 5, By: by, Seq: 6, ID: id, Key: []byte("k"), Attempts: 3, Copy: 12, Blocking: true, Reason: Permanent},
		{Kind: Known, Set: "7f3a", At: 5, By: by, Seq: 7, ID: id, Key: []byte("k"), Timestamp: 8},
		{Kind: Ends, Set: "7f3a", At: 5, By: by, Seq: 8, ID: id},
		{Kind: Close, Set: "7f3a", At: 5, By: by, Seq: 9},
		{Kind: Order, Set: "7f3a", At: 5, Order: "o1", Verb: Redrive, IDs: []ID{id, {}}},
		{Kind: Order, Set: "7f3a", At: 5, Order: "o1", User: "ann@host", Verb: Pass, IDs: []ID{id}},
		{Kind: Decided, Set: "7f3a", At: 5, Order: "o1", User: "ann@host", Verb: Pass, ID: id, Key: []byte("k"), Timestamp: 8, Attempts: 3, Since: 4, Answer: "no", Reason: Permanent},
		{Kind: Decided, Set: "7f3a", At: 5, Order: "o1", Verb: Discard, ID: id, NoCopy: true},
		{Kind: Order, Set: "7f3a", At: 5, Order: "o1", Verb: Edit, IDs: []ID{id}, Key: []byte("k")},
		{Kind: Order, Set: "7f3a", At: 5, Order: "o1", Verb: Edit, IDs: []ID{id}},
	}
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, r := range samples() {
		b := Encode(&r, r.Key)
		got, err := Decode(b, r.Key)
		if err != nil || !reflect.DeepEqual(*got, r) {
			t.Errorf("%+v became %+v, %v", r, got, err)
		}
		for n := range b {
			if _, err := Decode(b[:n], r.Key); !errors.Is(err, fault.Corrupt) {
				t.Errorf("%d of %d bytes of kind %d: %v; expected fault.Corrupt", n, len(b), r.Kind, err)
			}
		}
		if _, err := Decode(append(b, 0), r.Key); !errors.Is(err, fault.Corrupt) {
			t.Errorf("kind %d with a byte too many: %v; expected fault.Corrupt", r.Kind, err)
		}
	}
	for _, b := range [][]byte{{2, 1}, {1, 0}, {1, byte(kinds)}} {
		if _, err := Decode(b, nil); !errors.Is(err, fault.Corrupt) {
			t.Errorf("% x: %v; expected fault.Corrupt", b, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, r := range samples() {
		f.Add(Encode(&r, r.Key), r.Key)
	}
	f.Fuzz(func(t *testing.T, b, key []byte) {
		r, err := Decode(b, key)
		if err != nil {
			if !errors.Is(err, fault.Corrupt) {
				t.Fatalf("%v; expected fault.Corrupt", err)
			}
			return
		}
		again, err := Decode(Encode(r, r.Key), r.Key)
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

// What is read from a topic comes in large pieces: a key that is a part of one would keep it for as long
// as anything of that key is parked.
func TestAParkedKeyKeepsNothingElseInMemory(t *testing.T) {
	t.Parallel()
	by, piece := Tenure{Epoch: 1, Run: 1}, []byte("key and value")
	s := New(Config{Set: "s", Tenure: by})
	s.Start()
	script(s, Record{Kind: Fence, By: by, Seq: 1})
	s.Park(Held{Origin: Origin{Offset: 3}, Key: piece[:3]})
	s.Read(1, &Record{Kind: Park, By: by, Seq: 2, ID: ID{Origin: Origin{Offset: 3}}, Key: []byte("key")})
	clear(piece)
	if items := s.Items(); len(items) != 1 || string(items[0].Key) != "key" {
		t.Errorf("parked are %+v; expected one of a key of its own", items)
	}
}

// A time or a count that no policy knows may be in a journal: whoever wrote it, nobody waits for ever, and
// what is counted can be counted on.
func TestWhatAJournalSaysIsBoundByThePolicy(t *testing.T) {
	t.Parallel()
	const now, far = 1_000_000, 253_402_300_799_999 // the end of 9999
	by, key := Tenure{Epoch: 1, Run: 1}, []byte("k")
	id := ID{Origin: Origin{Offset: 5}}
	for _, r := range []Record{
		{Kind: Park, By: by, Seq: 2, ID: id, Key: key, At: now, Due: far, Attempts: MaxAttempts},
		{Kind: Park, By: by, Seq: 2, ID: id, Key: key, At: -far, Due: far, Attempts: MaxAttempts},
		{Kind: Try, By: by, Seq: 3, ID: id, At: now, Due: far, Attempts: MaxAttempts},
	} {
		for _, live := range []bool{false, true} {
			s := New(Config{Set: "s", Tenure: by, Now: now, MaxPause: 1000})
			s.Start()
			if !live {
				s = New(Config{Set: "s", Now: now, MaxPause: 1000})
			}
			s.Read(0, &Record{Kind: Fence, By: by, Seq: 1})
			if r.Kind == Try {
				s.Read(1, &Record{Kind: Park, By: by, Seq: 2, ID: id, Key: key})
			}
			s.Read(2, &r)
			if it, ok := s.Item(id.Origin); !ok || it.Due > now+1000 || it.Attempts >= MaxAttempts {
				t.Errorf("live: %t, kind %d of %d: %+v; expected to be due by %d after fewer than %d attempts", live, r.Kind, r.At, it, now+1000, MaxAttempts)
			}
		}
	}
}

// A shard writes down what it was told by a clock or by a handler. It could never start again if it did not read that.
func TestEncodeWritesWhatDecodeReads(t *testing.T) {
	t.Parallel()
	numbers := []int64{math.MinInt64, -1, 0, 1, math.MaxInt64}
	for _, kind := range []Kind{Fence, Park, Try, Done, Dead, Known, Order} {
		for _, n := range numbers {
			for _, attempts := range []int{-1, 0, MaxAttempts, MaxAttempts + 1, math.MaxInt} {
				r := Record{
					Kind: kind, Set: "s", At: n, Due: n, Since: n, Timestamp: n, Attempts: attempts, Reason: Attempts, Verb: Redrive,
					Answer: strings.Repeat("a", MaxAnswer+1), Member: strings.Repeat("m", MaxMember+1), Order: strings.Repeat("o", MaxMember+1),
				}
				if got, err := Decode(Encode(&r, r.Key), nil); err != nil {
					t.Errorf("kind %d, time %d, %d attempts: %v", kind, n, attempts, err)
				} else if got.Kind == Try && attempts > 0 && n > 0 && (got.Attempts != min(attempts, MaxAttempts) || got.Due != n) {
					t.Errorf("due at %d after %d attempts became %+v", n, attempts, got)
				}
			}
		}
	}
}

// What landed a second time is void, and nothing else.
func TestALateTwinEndsNobody(t *testing.T) {
	t.Parallel()
	s := owner()
	for i := range uint64(3) {
		s.Park(Held{Origin: Origin{Offset: int64(i)}, Key: []byte("k")})
	}
	for place, seq := range []uint64{2, 2, 3, 2, 4, 3, 4} {
		s.Read(int64(place+1), &Record{Kind: Park, By: s.cfg.Tenure, Seq: seq, ID: ID{Origin: Origin{Offset: int64(seq - 2)}}, Key: []byte("k")})
	}
	if s.phase != live || !s.Drained() || len(s.Items()) != 3 {
		t.Errorf("live: %t, drained: %t, parked are %+v", s.phase == live, s.Drained(), s.Items())
	}
}

// A record may be ordered by another key than its own, which is stored then; that of a journal from before that was
// possible is read as it was.
func TestAnOrderingKeyOfItsOwnIsStored(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("x"), MaxOrderingKey)
	for _, c := range []struct{ key, carried, want []byte }{
		{nil, []byte("a/1"), nil},
		{[]byte("a/1"), []byte("a/1"), []byte("a/1")},
		{[]byte("a"), []byte("a/1"), []byte("a")},
		{[]byte{}, []byte("a/1"), []byte{}},
		{[]byte{}, nil, []byte{}},
		{append(long, 'y'), []byte("a/1"), long},
	} {
		for _, kind := range []Kind{Park, Dead, Known} {
			r := Record{Kind: kind, Set: "s", By: Tenure{Epoch: 1}, Key: c.key, Reason: Permanent}
			got, err := Decode(Encode(&r, c.carried), c.carried)
			if err != nil || !bytes.Equal(got.Key, c.want) || (got.Key == nil) != (c.want == nil) {
				t.Errorf("%q in a record of key %q, %v: %.20q, %v; expected %.20q", c.key, c.carried, kind, got.Key, err, c.want)
			}
		}
	}
}
