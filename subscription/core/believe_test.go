package core

import (
	"reflect"
	"testing"
)

// What a forged fence can do is bounded by the journal alone: every reader passes over the same ones.
func TestAFenceThatTheRegistryCannotHaveGivenCountsForNothing(t *testing.T) {
	t.Parallel()
	owner := Tenure{Epoch: 217_000_000_000, Run: 1, Token: 1}
	forged := Tenure{Epoch: MaxEpoch, Run: 9, Token: 9}
	at := func(n int64) ID { return ID{Origin: Origin{Offset: n}} }
	journal := []Record{
		{Kind: Fence, By: forged, Seq: 1}, // before anybody has begun
		{Kind: Fence, By: owner, Seq: 1},
		{Kind: Park, By: owner, Seq: 2, ID: at(1), Key: []byte("k")},
		{Kind: Fence, By: forged, Seq: 1},
		{Kind: Park, By: forged, Seq: 2, ID: at(2), Key: []byte("k")},
		{Kind: Park, By: owner, Seq: 3, ID: at(3), Key: []byte("k")},
	}
	want := []int64{1, 3}
	parked := func(s *State) (got []int64) {
		for _, it := range s.Items() {
			got = append(got, it.Offset)
		}
		return got
	}
	all := New(Config{Set: "s"})
	script(all, journal...)
	if got := parked(all); !reflect.DeepEqual(got, want) {
		t.Errorf("whoever reads all has parked %v; expected %v", got, want)
	}
	later := New(Config{Set: "s", From: 1})
	for i := 1; i < len(journal); i++ {
		later.Read(int64(i), &journal[i])
	}
	if got := parked(later); !reflect.DeepEqual(got, want) {
		t.Errorf("whoever begins at the owner's fence has parked %v; expected %v", got, want)
	}
	heir := New(Config{Set: "s", Tenure: Tenure{Epoch: owner.Epoch + 1, Run: 1, Token: 2}})
	heir.Start()
	heir.Effects()
	script(heir, journal...)
	if got := heir.Effects(); !reflect.DeepEqual(got, []Effect{Forged{Place: 0, By: forged, Count: 1}, Forged{Place: 3, By: forged, Count: 2}}) {
		t.Errorf("the heir is told %+v", got)
	}
}

// Behind a fence that could be, and was none, those of the owners are believed, and one that is far beyond is not.
func TestFencesAreBelievedStepByStep(t *testing.T) {
	t.Parallel()
	s := New(Config{Set: "s"})
	for i, c := range []struct{ epoch, level int64 }{
		{217_000_000_000, 217_000_000_000},
		{FarEpoch + epochStep + 1, 217_000_000_000},
		{FarEpoch + epochStep, FarEpoch + epochStep},
		{FarEpoch + epochStep + 1, FarEpoch + epochStep + 1},
		{FarEpoch + 2*epochStep + 2, FarEpoch + epochStep + 1},
		{FarEpoch + 2*epochStep + 1, FarEpoch + 2*epochStep + 1},
	} {
		s.Read(int64(i), &Record{Kind: Fence, By: Tenure{Epoch: c.epoch, Run: 1, Token: 1}, Seq: 1})
		if s.level.Epoch != c.level {
			t.Fatalf("after the fence of epoch %d that of %d counts; expected %d", c.epoch, s.level.Epoch, c.level)
		}
	}
	on := New(Config{Set: "s", From: 5}) // where a checkpoint says that one counts
	on.Read(5, &Record{Kind: Fence, By: Tenure{Epoch: FarEpoch + 9*epochStep, Run: 1, Token: 1}, Seq: 1})
	if on.level.Epoch != FarEpoch+9*epochStep {
		t.Errorf("the fence at which a reader begins does not count: %+v", on.level)
	}
}

// Where the registry itself was forged, the shard says so, and writes nothing that nobody believes.
func TestAnOwnerThatNobodyBelievesIsTold(t *testing.T) {
	t.Parallel()
	own, other := Tenure{Epoch: MaxEpoch, Run: 1, Token: 2}, Tenure{Epoch: MaxEpoch, Run: 1, Token: 1}
	s := New(Config{Set: "s", Tenure: own})
	s.Start()
	s.Effects()
	script(s, Record{Kind: Fence, By: other, Seq: 1}, Record{Kind: Fence, By: other, Seq: 1}, Record{Kind: Fence, By: own, Seq: 1})
	if got := s.Effects(); !reflect.DeepEqual(got, []Effect{Forged{Place: 2, By: own, Count: 3, Own: true}}) || s.Live() {
		t.Errorf("it is told %+v", got)
	}
}

// Who only looks has nobody to tell, and a stranger who writes on and on fills nobody's log.
func TestForgedFencesAreToldToAnOwnerAndMoreAndMoreSeldom(t *testing.T) {
	t.Parallel()
	const fences = 1000
	forged := make([]Record, fences)
	for i := range forged {
		forged[i] = Record{Kind: Fence, By: Tenure{Epoch: MaxEpoch, Run: 9, Token: 9}, Seq: 1}
	}
	looker := New(Config{Set: "s"})
	script(looker, forged...)
	if got := looker.Effects(); len(got) > 0 {
		t.Errorf("who only looks is told %d times", len(got))
	}
	owner := New(Config{Set: "s", Tenure: Tenure{Epoch: 217_000_000_000, Run: 1, Token: 2}})
	owner.Start()
	owner.Effects()
	script(owner, forged...)
	got := owner.Effects()
	for i, e := range got {
		if told, ok := e.(Forged); !ok || told.Count != 1<<i {
			t.Errorf("the owner is told %+v; expected it after 1, 2, 4, 8 fences and so on", e)
		}
	}
	if len(got) != 10 {
		t.Errorf("the owner is told %d times of %d fences; expected 10", len(got), fences)
	}
}
