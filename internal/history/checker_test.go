package history_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/history"
)

// story builds the history of unit 0, which is partition 0 of storage topic 0.
type story struct {
	at     int64
	events []history.Event
}

func (s *story) add(e history.Event) *story {
	s.at++
	e.At = s.at
	s.events = append(s.events, e)
	return s
}

func (s *story) produce(key string, offsets ...int64) *story {
	for _, o := range offsets {
		s.add(history.Event{Kind: history.Produced, Offset: o, Key: key, Value: 7})
	}
	return s
}

func (s *story) own(member string, epoch int64, from ...protocol.Position) *story {
	return s.add(history.Event{Kind: history.Owned, Member: member, Epoch: epoch, After: epoch - 1, Positions: from})
}

func (s *story) handoff(member string, epoch int64, from ...protocol.Position) *story {
	return s.add(history.Event{Kind: history.Owned, Member: member, Epoch: epoch, After: epoch - 1, Positions: from, Handoff: true})
}

func (s *story) handler(kind history.Kind, member string, epoch, offset int64, key string) *story {
	return s.add(history.Event{Kind: kind, Member: member, Epoch: epoch, Offset: offset, Key: key, Value: 7})
}

func (s *story) start(member string, epoch, offset int64, key string) *story {
	return s.handler(history.Started, member, epoch, offset, key)
}

func (s *story) end(member string, epoch, offset int64, key string) *story {
	return s.handler(history.Finished, member, epoch, offset, key)
}

func (s *story) process(member string, epoch int64, key string, offsets ...int64) *story {
	for _, o := range offsets {
		s.start(member, epoch, o, key).end(member, epoch, o, key)
	}
	return s
}

func (s *story) commit(member string, epoch int64, pos ...protocol.Position) *story {
	return s.add(history.Event{Kind: history.Committed, Member: member, Epoch: epoch, Positions: pos})
}

func (s *story) check(exact, complete bool) *history.Report {
	c := history.New(history.Config{Exact: exact})
	for _, e := range s.events {
		c.Add(e)
	}
	return c.Finish(complete)
}

func next(n int64, done ...protocol.Range) protocol.Position {
	return protocol.Position{Next: n, Done: done}
}

// begun is a unit with four records of key k in the hands of a.
func begun() *story { return new(story).produce("k", 0, 1, 2, 3).own("a", 1) }

func TestTheCheckerFindsEachBrokenPromise(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		breaks history.Promise
		story  *story
	}{
		{"two owners in one epoch", history.OneOwner, begun().own("b", 1)},
		{"an epoch that goes back", history.EpochsIncrease, begun().own("b", 3).own("c", 2)},
		{"an epoch that is left out", history.EpochsIncrease, begun().own("b", 3)},
		{"a stale commit that is accepted", history.Fence, begun().own("b", 2).commit("a", 1, next(0))},
		{"a commit by somebody else", history.OnlyOwners, begun().commit("b", 1, next(0))},
		{"a delivery by somebody else", history.OnlyOwners, begun().process("b", 1, "k", 0)},
		{"a delivery in an epoch that nobody got", history.OnlyOwners, begun().process("a", 2, "k", 0)},
		{"a commit that goes back", history.NeverBack, begun().process("a", 1, "k", 0, 1).commit("a", 1, next(2)).commit("a", 1, next(1))},
		{"a commit that forgets a finished record", history.NeverBack,
			begun().process("a", 1, "", 0, 2).commit("a", 1, next(1, protocol.Range{2, 3})).commit("a", 1, next(1))},
		{"an owner that starts behind the checkpoint", history.NeverBack,
			begun().process("a", 1, "k", 0, 1).commit("a", 1, next(2)).own("b", 2, next(1))},
		{"a checkpoint past a record in flight", history.NotPast, begun().start("a", 1, 0, "k").commit("a", 1, next(1))},
		{"a checkpoint past a record that nobody got", history.NotPast, begun().process("a", 1, "k", 1).commit("a", 1, next(2))},
		{"a done range around an unfinished record", history.NotPast,
			begun().process("a", 1, "", 1).commit("a", 1, next(0, protocol.Range{1, 3}))},
		{"a checkpoint past what only a replaced owner finished", history.NotPast,
			begun().start("a", 1, 0, "k").own("b", 2).end("a", 1, 0, "k").commit("b", 2, next(1))},
		{"a checkpoint beyond the end", history.NotPast, begun().process("a", 1, "k", 0, 1, 2, 3).commit("a", 1, next(5))},
		{"an owner that starts past an unfinished record", history.NotPast, begun().start("a", 1, 0, "k").own("b", 2, next(1))},
		{"a record that appears below the checkpoint", history.NotSkipped,
			new(story).produce("k", 0, 2).own("a", 1).process("a", 1, "k", 0, 2).commit("a", 1, next(3)).produce("k", 1)},
		{"a record that nobody finished", history.NotLost, begun().process("a", 1, "k", 0, 1, 2)},
		{"a key whose records overlap", history.KeyOrder, begun().start("a", 1, 0, "k").start("a", 1, 1, "k")},
		{"a record in flight twice", history.KeyOrder, begun().start("a", 1, 0, "k").start("a", 1, 0, "k")},
		{"a key that goes back", history.KeyOrder, begun().process("a", 1, "k", 1, 0)},
		{"a key that goes on after a failure", history.KeyOrder,
			begun().start("a", 1, 0, "k").handler(history.Failed, "a", 1, 0, "k").process("a", 1, "k", 1)},
		{"a key that goes back across owners", history.KeyOrder, begun().process("a", 1, "k", 1).own("b", 2).process("b", 2, "k", 0)},
		{"a record that came after its successor across owners", history.KeyOrder,
			begun().start("a", 1, 0, "k").own("b", 2).process("b", 2, "k", 1).own("c", 3).process("c", 3, "k", 0)},
		{"a delivery below the checkpoint", history.NotAgain,
			begun().process("a", 1, "k", 0).commit("a", 1, next(1)).own("b", 2, next(1)).process("b", 2, "k", 0)},
		{"a delivery of a record that was done out of order", history.NotAgain,
			begun().process("a", 1, "", 1).commit("a", 1, next(0, protocol.Range{1, 2})).
				own("b", 2, next(0, protocol.Range{1, 2})).process("b", 2, "", 1)},
		{"a repeated delivery without a takeover", history.NotAgain, begun().process("a", 1, "", 0, 0)},
		{"a handoff while a handler runs", history.CleanHandoff, begun().start("a", 1, 0, "k").handoff("b", 2)},
		{"a handoff without the final checkpoint", history.CleanHandoff, begun().process("a", 1, "k", 0).handoff("b", 2)},
		{"a position with two values", history.OneValue,
			begun().add(history.Event{Kind: history.Started, Member: "a", Epoch: 1, Offset: 0, Key: "k", Value: 8})},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			report := test.story.check(true, test.breaks == history.NotLost)
			if report.Err() == nil || report.Violations[0].Promise != test.breaks {
				t.Errorf("want a violation of %q, got:\n%s", test.breaks, report)
			}
		})
	}
}

func TestAGoodHistoryIsCountedAndBreaksNothing(t *testing.T) {
	t.Parallel()
	s := begun().process("a", 1, "k", 0).commit("a", 1, next(1)).
		process("a", 1, "k", 1).start("a", 1, 2, "k"). // a is killed here
		own("b", 2, next(1)).
		add(history.Event{Kind: history.Committed, Member: "a", Epoch: 1, Positions: []protocol.Position{next(2)}, Outcome: history.Refused}).
		process("b", 2, "k", 1).start("b", 2, 2, "k").handler(history.Failed, "b", 2, 2, "k").process("b", 2, "k", 2).
		commit("b", 2, next(3)).handoff("c", 3, next(3)).
		process("c", 3, "k", 3).commit("c", 3, next(4))
	got := *s.check(true, true)
	want := history.Report{
		Produced: 4, Delivered: 4, Deliveries: 7, Failed: 1, Duplicated: 1, InFlight: 2,
		Commits: 3, Refused: 1, Takeovers: 2, Handoffs: 1,
	}
	if got.String() != want.String() {
		t.Errorf("got:\n%s\nwant:\n%s", &got, &want)
	}
}

// Whether a commit of unknown fate was stored nobody can say: it proves nothing, for or against.
func TestACommitOfUnknownFateProvesNothing(t *testing.T) {
	t.Parallel()
	unknown := func(n int64) history.Event {
		return history.Event{Kind: history.Committed, Member: "a", Epoch: 1, Positions: []protocol.Position{next(n)}, Outcome: history.Unknown}
	}
	s := begun().process("a", 1, "k", 0, 1).add(unknown(2)).own("b", 2).add(unknown(1)).process("b", 2, "k", 0, 1, 2, 3).commit("b", 2, next(4))
	if report := s.check(true, true); report.Err() != nil || report.Unknown != 2 || report.Commits != 1 {
		t.Errorf("want two unknown commits, one that is known, and no violation, got:\n%s", report)
	}
}

func TestAReplacedOwnerMayStillBeAtWork(t *testing.T) {
	t.Parallel()
	s := begun().start("a", 1, 0, "k").own("b", 2).
		start("b", 2, 0, "k").end("a", 1, 0, "k").start("a", 1, 1, "k").
		end("b", 2, 0, "k").process("b", 2, "k", 1, 2, 3).end("a", 1, 1, "k").
		commit("b", 2, next(4))
	report := s.check(true, true)
	if report.Err() != nil || report.Stale != 1 {
		t.Errorf("want one stale delivery and no violation, got:\n%s", report)
	}
}

func TestASeekMayGoBackAndForth(t *testing.T) {
	t.Parallel()
	seek := func(s *story, epoch, to int64) *story {
		s.add(history.Event{Kind: history.Seek, Epoch: epoch, Positions: []protocol.Position{next(to)}})
		return s.own("a", epoch, next(to))
	}
	s := begun().process("a", 1, "k", 0, 1, 2, 3).commit("a", 1, next(4))
	s = seek(s, 2, 1).process("a", 2, "k", 1, 2).commit("a", 2, next(3))
	s = seek(s, 3, 4)
	if report := s.check(true, true); report.Err() != nil || report.Seeks != 2 || report.Duplicated != 0 {
		t.Errorf("got:\n%s", report)
	}
	s = seek(s, 4, 2).process("a", 4, "k", 3)
	if report := s.check(true, true); report.Violations == nil || report.Lost != 1 {
		t.Errorf("record 2 was asked for again and never finished, got:\n%s", report)
	}
}

func TestLateAnswersOfRealProcessesAreNoViolation(t *testing.T) {
	t.Parallel()
	s := new(story).own("a", 1).process("a", 1, "k", 0)
	s.own("b", 2, next(1)) // told before a told that its commit was accepted, which b has seen
	s.add(history.Event{Kind: history.Committed, Began: 3, Member: "a", Epoch: 1, Positions: []protocol.Position{next(1)}})
	s.produce("k", 0) // the producer was slow to tell
	s.own("c", 5, next(1))
	if report := s.check(false, true); report.Err() != nil {
		t.Errorf("got:\n%s", report)
	}
	s.add(history.Event{Kind: history.Committed, Began: 1, Member: "b", Epoch: 2, Positions: []protocol.Position{next(2)}})
	if report := s.check(false, true); report.Err() == nil || report.Violations[0].Promise != history.NeverBack {
		t.Errorf("c does not know what b committed, got:\n%s", report)
	}
}

func TestAReportShowsTheEventsOfAViolation(t *testing.T) {
	t.Parallel()
	text := begun().own("b", 1).check(true, false).String()
	for _, want := range []string{"Violated:", "unit 0 has two owners in epoch 1", "epoch 1 by a@", "epoch 1 by b@", "Lag:"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func TestManyViolationsAreCountedButNotAllKept(t *testing.T) {
	t.Parallel()
	s := begun()
	for range 1000 {
		s.own("b", 1)
	}
	report := s.check(true, false)
	if report.Violated != 1000 || len(report.Violations) > 100 || !strings.Contains(report.String(), "more") {
		t.Errorf("%d violations, %d kept", report.Violated, len(report.Violations))
	}
}

func TestForgettingIdleKeysKeepsTheOrderOfTheOthers(t *testing.T) {
	t.Parallel()
	c := history.New(history.Config{})
	c.Add(history.Event{Kind: history.Owned, Member: "a", Epoch: 1})
	handler := func(kind history.Kind, o int64, key string) {
		c.Add(history.Event{Kind: kind, At: o, Member: "a", Epoch: 1, Offset: o, Key: key})
	}
	handler(history.Started, 1, "first")
	for o := int64(2); o < 150_000; o++ {
		key := fmt.Sprintf("key%d", o)
		handler(history.Started, o, key)
		handler(history.Finished, o, key)
	}
	handler(history.Started, 150_000, "first")
	if r := c.Report(); r.Reordered != 1 {
		t.Errorf("the key with a record in flight was forgotten:\n%s", r)
	}
}

func TestAStoreThatGoesBackIsNoExcuseForALostRecord(t *testing.T) {
	t.Parallel()
	rollback := func(s *story, epoch int64, to protocol.Position) *story {
		return s.add(history.Event{Kind: history.Rollback, Epoch: epoch, Positions: []protocol.Position{to}})
	}
	undone := func() *story {
		s := begun().process("a", 1, "k", 0).commit("a", 1, next(1)).own("b", 2, next(1)).process("b", 2, "k", 1).commit("b", 2, next(2))
		return rollback(s, 1, next(1))
	}
	good := undone().own("c", 3, next(1)).process("b", 2, "k", 2). // b has not noticed yet
									process("c", 3, "k", 1, 2, 3).commit("c", 3, next(4))
	if report := good.check(true, true); report.Err() != nil || report.Stale != 1 || report.Duplicated != 2 {
		t.Errorf("got:\n%s", report)
	}
	for name, s := range map[string]*story{
		"the forgotten owner commits":     undone().own("c", 3, next(1)).commit("b", 2, next(2)),
		"the next owner skips the record": undone().own("c", 3, next(1)).process("c", 3, "k", 2, 3).commit("c", 3, next(4)),
		"the next owner starts too far":   undone().own("c", 3, next(2)),
	} {
		if report := s.check(true, false); report.Err() == nil {
			t.Errorf("%s: no violation:\n%s", name, report)
		}
	}
}

// An epoch that the store forgot is nobody else's, but of who had asked for it before it was forgotten.
func TestAForgottenEpochIsGivenAgainOnlyToWhoWasOnTheWay(t *testing.T) {
	t.Parallel()
	for _, crossed := range []bool{false, true} {
		s := begun().own("b", 2).add(history.Event{Kind: history.Rollback, Epoch: 1, Positions: []protocol.Position{next(0)}})
		s.add(history.Event{Kind: history.Owned, Member: "c", Epoch: 2, After: 1, Crossed: crossed})
		report := s.process("c", 2, "k", 0).check(true, false)
		if bad := report.Err() != nil; bad == crossed || bad && report.Violations[0].Promise != history.OneOwner {
			t.Errorf("sent before the store went back: %v; got:\n%s", crossed, report)
		}
	}
}

// A store may say that a record stands far behind all others, or where none can stand. The judge finds
// that out as soon as he would find anything.
func TestAPlaceThatCannotBeIsJudgedAtOnce(t *testing.T) {
	t.Parallel()
	far := begun().process("a", 1, "k", 0, 1, 2, 3).commit("a", 1, next(4)).produce("k", 1<<52)
	report := far.check(true, true)
	if report.Lost != 1 || len(report.Violations) == 0 || !strings.Contains(report.Violations[0].Detail, "4503599627370496") {
		t.Errorf("a record at 2^52: got:\n%s", report)
	}
	for _, at := range []int64{-6, math.MaxInt64} {
		report := begun().process("a", 1, "k", 0, 1, 2, 3).commit("a", 1, next(4)).produce("k", at).check(true, true)
		if len(report.Violations) != 1 || report.Violations[0].Promise != history.OneValue {
			t.Errorf("a record at %d: got:\n%s", at, report)
		}
	}
}
