package history_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/history"
)

// tale is a story of two keys and two storage topics, each with one partition and one unit, in which
// the producers tell what they send. Record n of a key has a value of its own.
type tale struct{ story }

func (s *tale) record(kind history.Kind, storage int, offset int64, key string, n int64) *tale {
	s.add(history.Event{
		Kind: kind, Member: "m", Epoch: 1, Unit: storage, Storage: storage, Offset: offset,
		Key: key, Sequence: n, Value: uint64(n)<<8 | uint64(key[0]),
	})
	return s
}

func (s *tale) send(key string, n int64) *tale { return s.record(history.Sent, 0, 0, key, n) }
func (s *tale) deny(key string, n int64) *tale { return s.record(history.Denied, 0, 0, key, n) }

func (s *tale) ack(storage int, offset int64, key string, n int64) *tale {
	return s.record(history.Produced, storage, offset, key, n)
}

func (s *tale) begin(storage int, offset int64, key string, n int64) *tale {
	return s.record(history.Started, storage, offset, key, n)
}

func (s *tale) finish(storage int, offset int64, key string, n int64) *tale {
	return s.record(history.Finished, storage, offset, key, n)
}

func (s *tale) handle(storage int, offset int64, key string, n int64) *tale {
	return s.begin(storage, offset, key, n).finish(storage, offset, key, n)
}

// newTale begins with two records of a key, of which the first was processed.
func newTale() *tale {
	s := new(tale)
	for unit := range 2 {
		s.add(history.Event{Kind: history.Owned, Member: "m", Epoch: 1, Unit: unit})
	}
	return s.send("k", 1).send("k", 2).ack(0, 0, "k", 1).ack(0, 1, "k", 2).handle(0, 0, "k", 1)
}

func TestWhatWasSentIsComparedWithWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tell  func(*tale)
		broke []history.Promise
	}{
		"all is well": {func(s *tale) { s.handle(0, 1, "k", 2) }, nil},
		"an append of unknown fate shows once": {func(s *tale) {
			s.send("u", 1).handle(0, 1, "k", 2).handle(0, 2, "u", 1)
		}, nil},
		"an append is sent again, and acknowledged with its first place": {func(s *tale) {
			s.send("k", 2).ack(0, 1, "k", 2).handle(0, 1, "k", 2)
		}, nil},
		"it goes on in the next storage topic": {func(s *tale) {
			s.send("k", 3).ack(1, 0, "k", 3).handle(0, 1, "k", 2).handle(1, 0, "k", 3)
		}, nil},
		"a record that was sent again stands there twice": {func(s *tale) {
			s.ack(0, 2, "k", 2).handle(0, 1, "k", 2).handle(0, 2, "k", 2)
		}, []history.Promise{history.StoredOnce}},
		"a record of unknown fate stands there twice": {func(s *tale) {
			s.send("u", 1).handle(0, 1, "k", 2).handle(0, 2, "u", 1).handle(0, 3, "u", 1)
		}, []history.Promise{history.StoredOnce}},
		"a record stands in two storage topics, at one offset": {func(s *tale) {
			s.send("u", 1).ack(0, 2, "u", 1).handle(0, 1, "k", 2).handle(0, 2, "u", 1).handle(1, 2, "u", 1)
		}, []history.Promise{history.StoredOnce}},
		"the next storage topic begins when a record has failed": {func(s *tale) {
			s.send("k", 3).ack(1, 0, "k", 3).begin(0, 1, "k", 2).record(history.Failed, 0, 1, "k", 2).handle(1, 0, "k", 3).handle(0, 1, "k", 2)
		}, []history.Promise{history.KeyOrder}},
		"a record was denied, and is there": {func(s *tale) {
			s.send("u", 1).deny("u", 1).handle(0, 1, "k", 2).handle(0, 2, "u", 1)
		}, []history.Promise{history.DeniedIsAbsent}},
		"a record is there, and was denied": {func(s *tale) {
			s.send("u", 1).handle(0, 1, "k", 2).handle(0, 2, "u", 1).deny("u", 1)
		}, []history.Promise{history.DeniedIsAbsent}},
		"nobody sent what is there": {func(s *tale) {
			s.handle(0, 1, "k", 2).handle(0, 2, "x", 9)
		}, []history.Promise{history.OnlySent}},
		"the log stored two of a key the other way round": {func(s *tale) {
			s.send("o", 1).send("o", 2).ack(0, 3, "o", 1).ack(0, 2, "o", 2).handle(0, 1, "k", 2).handle(0, 2, "o", 2).handle(0, 3, "o", 1)
		}, []history.Promise{history.KeyOrder}},
		"the next storage topic begins too early": {func(s *tale) {
			s.send("k", 3).ack(1, 0, "k", 3).begin(0, 1, "k", 2).handle(1, 0, "k", 3).finish(0, 1, "k", 2)
		}, []history.Promise{history.KeyOrder}},
		"the next storage topic comes first": {func(s *tale) {
			s.send("k", 3).ack(1, 0, "k", 3).handle(1, 0, "k", 3).handle(0, 1, "k", 2)
		}, []history.Promise{history.KeyOrder}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTale()
			c.tell(s)
			r := s.check(false, true)
			if got := slices.Sorted(maps.Keys(r.Broken)); !slices.Equal(got, c.broke) {
				t.Errorf("broken: %q; expected %q\n%s", got, c.broke, r)
			}
			if doubled := slices.Contains(c.broke, history.StoredOnce); doubled != (r.Doubled == 1) || r.Sent == 0 {
				t.Errorf("%d doubled of %d that were sent", r.Doubled, r.Sent)
			}
		})
	}
}

// A history without what was sent may have values that are not told apart.
func TestWithoutWhatWasSentEqualValuesAreFine(t *testing.T) {
	t.Parallel()
	s := new(story).own("a", 1).produce("k", 0, 1).process("a", 1, "k", 0, 1)
	if r := s.check(false, true); r.Violated > 0 || r.Sent != 0 {
		t.Error(r)
	}
}

// Two units have handed out a key, the second after the first had ended.
func TestTokenOfAKeyRisesWithWhatItsOwnersHandOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tokens  []string // of what unit 0, then unit 1 hands out
		late    string   // of unit 0, by a process that has lost it
		refused bool
	}{
		"it rises":                         {[]string{"12", "21"}, "", false},
		"it falls":                         {[]string{"22", "21"}, "", true},
		"it stays":                         {[]string{"21", "21"}, "", true},
		"a stale one comes late":           {[]string{"12", "21"}, "13", false},
		"a stale one makes it fall":        {[]string{"12", "21"}, "22", true},
		"one that is not told is no lower": {[]string{"12", ""}, "", false},
	} {
		s := newTale()
		at := func(unit int, epoch, offset, n int64, token string) {
			for _, kind := range []history.Kind{history.Started, history.Finished} {
				s.add(history.Event{
					Kind: kind, Member: "m", Epoch: epoch, Unit: unit, Storage: unit, Offset: offset,
					Key: "k", Sequence: n, Value: uint64(n)<<8 | 'k', Token: token,
				})
			}
		}
		at(0, 1, 1, 2, c.tokens[0])
		s.add(history.Event{Kind: history.Owned, Member: "n", Epoch: 2, After: 1, Unit: 0})
		if c.late != "" {
			at(0, 1, 1, 2, c.late)
		}
		s.send("k", 3)
		at(1, 1, 0, 3, c.tokens[1])
		if r := s.check(false, false); r.Broken[history.TokenRises] > 0 != c.refused {
			t.Errorf("%s: %s", name, r)
		}
	}
}

func TestEveryPromiseThatBreaksIsShown(t *testing.T) {
	t.Parallel()
	s := newTale().handle(0, 1, "k", 2)
	for n := range int64(100) {
		s.handle(0, 2+n, "x", 9+n)
	}
	s.send("u", 1).deny("u", 1).handle(0, 200, "u", 1)
	r := s.check(false, true)
	shown := func(p history.Promise) bool {
		return slices.ContainsFunc(r.Violations, func(v history.Violation) bool { return v.Promise == p })
	}
	if r.Broken[history.OnlySent] != 100 || !shown(history.OnlySent) || !shown(history.DeniedIsAbsent) || len(r.Violations) > 60 {
		t.Errorf("%d of %v are shown", len(r.Violations), r.Broken)
	}
	for p := range r.Broken {
		if !slices.Contains(history.Promises(), p) {
			t.Errorf("%q is missing in the list of promises", p)
		}
	}
}

// A member whose session was lost, and whose units nobody took, begins again at their checkpoints.
func TestWhoRejoinsMayRepeatWhatNoCheckpointCovers(t *testing.T) {
	t.Parallel()
	rejoin := history.Event{Kind: history.Rejoined, Member: "a"}
	begin := func() *story {
		return new(story).own("a", 1).produce("k", 0, 1, 2).process("a", 1, "k", 0, 1).
			commit("a", 1, protocol.Position{Next: 1})
	}
	for name, c := range map[string]struct {
		story *story
		broke []history.Promise
	}{
		"it repeats one, once":        {begin().add(rejoin).process("a", 1, "k", 1, 2), nil},
		"its handler ends afterwards": {begin().start("a", 1, 2, "k").add(rejoin).end("a", 1, 2, "k").process("a", 1, "k", 1, 2), nil},
		"it has not lost its session": {begin().process("a", 1, "k", 1, 2), []history.Promise{history.NotAgain, history.KeyOrder}},
		"another one rejoined": {
			begin().add(history.Event{Kind: history.Rejoined, Member: "b"}).process("a", 1, "k", 1, 2),
			[]history.Promise{history.NotAgain, history.KeyOrder},
		},
		"it repeats one twice": {begin().add(rejoin).process("a", 1, "k", 1, 2, 1), []history.Promise{history.NotAgain, history.KeyOrder}},
		"it repeats what a checkpoint covers": {
			begin().add(rejoin).process("a", 1, "k", 0, 1, 2), []history.Promise{history.NotAgain},
		},
		"two are at work at once": {
			begin().start("a", 1, 2, "k").add(rejoin).process("a", 1, "k", 1).end("a", 1, 2, "k"), []history.Promise{history.KeyOrder},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := c.story.check(false, true)
			got := slices.Sorted(maps.Keys(r.Broken))
			slices.Sort(c.broke)
			if !slices.Equal(got, c.broke) {
				t.Errorf("broken: %q; expected %q\n%s", got, c.broke, r)
			}
		})
	}
}
