package core

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"
)

// owner is a shard that has read its own fence, at place 0.
func owner() *State {
	by := Tenure{Epoch: 1, Run: 1}
	s := New(Config{Set: "s", Tenure: by})
	s.Start()
	s.Read(0, &Record{Kind: Fence, By: by, Seq: 1})
	return s
}

// A key may have records in several partitions when its topic has grown. While one is delivered, another
// may be parked, and then the shard may be lost.
func TestADeliveryThatEndsAfterItsShardIsLostHarmsNothing(t *testing.T) {
	t.Parallel()
	s, key := owner(), []byte("k")
	running, failed := Origin{Partition: 1, Offset: 5}, Origin{Partition: 2, Offset: 7}
	for _, o := range []Origin{running, failed} {
		if v := s.Admit(key, o); v != Direct {
			t.Fatalf("%v: verdict %d; expected Direct", o, v)
		}
	}
	s.Left(failed)
	s.Park(Held{Origin: failed, Key: key, Due: 9})
	s.Read(1, &Record{Kind: Park, By: s.cfg.Tenure, Seq: 2, ID: ID{Origin: failed}, Key: key, Due: 9})
	s.Read(2, &Record{Kind: Fence, By: Tenure{Epoch: 2, Run: 1}, Seq: 1})
	if s.phase == live {
		t.Fatal("a higher fence is there, and the shard goes on")
	}
	s.Left(running)
}

func TestWhatIsSparedHasItsTurnAfterTheOthers(t *testing.T) {
	t.Parallel()
	s := owner()
	for i := range 3 {
		s.Read(int64(i+1), &Record{
			Kind: Park, By: s.cfg.Tenure, Seq: uint64(i + 2), ID: ID{Origin: Origin{Offset: int64(i)}}, Key: fmt.Append(nil, i),
			Attempts: 1, Due: int64(10 + i),
		})
	}
	var tried []int64
	for now := int64(100); now < 106; now++ {
		s.Effects()
		s.Due(now, 1)
		for _, e := range s.Effects() {
			d := e.(Deliver)
			if tried = append(tried, d.ID.Offset); d.Attempt != 2 {
				t.Errorf("attempt %d at %d", d.Attempt, d.ID.Offset)
			}
			s.Spared(d.ID, now)
		}
	}
	if want := []int64{0, 1, 2, 0, 1, 2}; !slices.Equal(tried, want) {
		t.Errorf("tried %v; expected %v", tried, want)
	}
	if len(s.Effects()) > 0 || !s.Drained() {
		t.Error("something is written about an attempt that counts for nothing")
	}
}

// What was on its way into the journal when the clock was set back waits for no longer than its pause, as what
// was there.
func TestAClockThatIsSetBackMakesNoPauseLonger(t *testing.T) {
	t.Parallel()
	const was, is = 100_000, 10_000
	s := owner()
	s.Clock(was)
	for i := range 2 {
		if i == 1 {
			s.SetBack(was - is)
			s.Clock(is)
		}
		s.Read(int64(i+1), &Record{
			Kind: Park, By: s.cfg.Tenure, Seq: uint64(i + 2), ID: ID{Origin: Origin{Offset: int64(i)}}, Key: fmt.Append(nil, i),
			Attempts: 1, At: was, Due: was + 60,
		})
	}
	s.Effects()
	if s.Due(is+59, 9); len(s.Effects()) > 0 {
		t.Error("delivered before its pause was over")
	}
	if s.Due(is+60, 9); len(s.Effects()) != 2 {
		t.Error("what was parked waits for longer than its pause")
	}
}

// What waits for no time, but for its turn, is told from what does by a time of 0. A clock that is set back
// leaves that as it is.
func TestAClockThatIsSetBackGivesNoTimeToWhatWaitsForNone(t *testing.T) {
	t.Parallel()
	const was, is = 100_000, 10_000
	s := owner()
	s.Clock(was)
	for i, due := range []int64{0, was + 60} {
		s.Read(int64(i+1), &Record{
			Kind: Park, By: s.cfg.Tenure, Seq: uint64(i + 2), ID: ID{Origin: Origin{Offset: int64(i)}}, Key: fmt.Append(nil, i), At: was, Due: due,
		})
	}
	s.SetBack(was - is)
	for i, want := range []int64{0, is + 60} {
		if it, ok := s.Item(Origin{Offset: int64(i)}); !ok || it.Due != want {
			t.Errorf("the record at %d is due at %d; expected %d", i, it.Due, want)
		}
	}
}

// A record that is appended once more tells an heir of its pause by two times. Both are of the clock as it is.
func TestWhatIsAppendedOnceMoreAfterAClockWasSetBackHasItsPause(t *testing.T) {
	t.Parallel()
	const was, is = 100_000, 10_000
	s := owner()
	s.Clock(was)
	s.Read(1, &Record{Kind: Park, By: s.cfg.Tenure, Seq: 2, At: was, Due: was + 60})
	s.Effects()
	s.SetBack(was - is)
	s.compact(s.end, 1)
	for _, e := range s.Effects() {
		if again, ok := e.(Append); ok && len(again.Entries) == 1 {
			if r := again.Entries[0].Record; r.At != is || r.Due != is+60 {
				t.Errorf("it is due at %d, as of %d; expected %d, as of %d", r.Due, r.At, is+60, is)
			}
			return
		}
	}
	t.Error("it is not appended once more")
}

func TestAKeyIsKnownInEachOfItsPartitions(t *testing.T) {
	t.Parallel()
	s, key, seq := owner(), []byte("k"), uint64(1)
	for round := range int64(2) {
		for p := range int32(4) {
			o := Origin{Partition: p, Offset: 5 * round}
			if v := s.Admit(key, o); v == Past {
				t.Errorf("%v was never parked; its verdict is %d", o, v)
			}
			seq++
			s.Read(int64(seq), &Record{Kind: Known, By: s.cfg.Tenure, Seq: seq, ID: ID{Origin: o}, Key: key})
		}
		for p := range int32(4) {
			for offset, known := range map[int64]bool{5*round - 1: true, 5 * round: true, 5*round + 1: false} {
				if l := s.find(key, Origin{}); l.known(Origin{Partition: p, Offset: offset}) != known {
					t.Errorf("after %d rounds: offset %d of partition %d known: %t", round+1, offset, p, !known)
				}
			}
		}
	}
}

func TestRecordsThatFailedWithTheSameAnswerHoldItOnce(t *testing.T) {
	t.Parallel()
	s, texts := owner(), map[*byte]bool{}
	for i := range 4 {
		// Each as it comes from the journal: a string of its own.
		s.Read(int64(i+1), &Record{
			Kind: Park, By: s.cfg.Tenure, Seq: uint64(i + 2), ID: ID{Origin: Origin{Offset: int64(i)}},
			Key: fmt.Append(nil, i), Answer: fmt.Sprint("refused ", i/2*2 == 0),
		})
	}
	for _, it := range s.Items() {
		texts[unsafe.StringData(it.Answer)] = true
		if want := fmt.Sprint("refused ", it.Offset < 2); it.Answer != want {
			t.Errorf("the answer of %d is %q; expected %q", it.Offset, it.Answer, want)
		}
	}
	if len(texts) != 2 {
		t.Errorf("two answers are held in %d places", len(texts))
	}
	for i := range 10 * manyAnswers {
		s.shared(fmt.Sprint("refused, request ", i))
	}
	if n := len(s.answers); n > manyAnswers {
		t.Errorf("%d answers are kept beside the records; expected %d at most", n, manyAnswers)
	}
}

// Not parallel: the memory is that of the whole process.
func TestAParkedRecordTakesLittleMemory(t *testing.T) {
	t.Setenv("MEASURED_ALONE", "1") // which a parallel test may not
	const records = 50_000
	for each, most := range map[int]int64{1: 400, 10: 260, 100: 230} {
		before := inUse()
		s := parked(records, records/each)
		got := (inUse() - before) / records
		if n := len(s.items); n != records {
			t.Fatalf("%d are parked; expected %d", n, records)
		}
		if t.Logf("%d of a key: %d bytes each", each, got); got > most || got < 50 {
			t.Errorf("%d of a key: a parked record takes %d bytes; expected at most %d", each, got, most)
		}
	}
}
