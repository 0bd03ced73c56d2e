package topic_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// records produces records of four keys, numbered from and below to.
func (s *setup) records(t *testing.T, tp *topic.Topic, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		_, err := tp.Produce(t.Context(), fmt.Appendf(nil, "k%d", n%4), topic.AnyPartition, []commitlog.Record{rec(n%4, n)}, nil)
		must(t, err)
	}
}

func (s *setup) grow(t *testing.T, partitions int) {
	t.Helper()
	_, err := s.catalog.AddStorage(t.Context(), "a", partitions)
	must(t, err)
	_, err = s.catalog.Switch(t.Context(), "a")
	must(t, err)
}

// retire drops all records of the oldest storage topic, and that.
func (s *setup) retire(t *testing.T) {
	t.Helper()
	doc, err := s.catalog.Get(t.Context(), "a")
	must(t, err)
	st, err := s.log.Topic(t.Context(), doc.Storage[doc.Left()].Name)
	must(t, err)
	for p := range doc.Storage[doc.Left()].Partitions {
		must(t, st.Trim(t.Context(), p, 1<<40))
	}
	must(t, st.Close())
	r, err := s.catalog.Retire(t.Context(), "a")
	must(t, err)
	if len(r.Retired) == 0 {
		t.Fatalf("nothing was retired: %+v", r)
	}
}

// history is a topic, and what was done to it since its definition was copied.
type history struct {
	name   string
	before func(t *testing.T, s *setup, tp *topic.Topic)
	since  func(t *testing.T, s *setup, tp *topic.Topic)
	left   int // records of the key k0 that are still there at its end
	told   []string
}

var histories = []history{
	{name: "an addition", since: func(t *testing.T, s *setup, _ *topic.Topic) {
		_, err := s.catalog.AddStorage(t.Context(), "a", 4)
		must(t, err)
	}, left: 2, told: []string{"storage topic 1 with 4 partitions"}},
	{name: "an addition and a switch", since: func(t *testing.T, s *setup, tp *topic.Topic) {
		s.grow(t, 4)
		s.records(t, tp, 8, 16)
	}, left: 4, told: []string{"storage topic 1 with 4 partitions", "the switch from storage topic 0 to 1"}},
	{name: "a switch", before: func(t *testing.T, s *setup, _ *topic.Topic) {
		_, err := s.catalog.AddStorage(t.Context(), "a", 4)
		must(t, err)
	}, since: func(t *testing.T, s *setup, tp *topic.Topic) {
		_, err := s.catalog.Switch(t.Context(), "a")
		must(t, err)
		s.records(t, tp, 8, 16)
	}, left: 4, told: []string{"the switch from storage topic 0 to 1"}},
	{name: "three additions and two switches", since: func(t *testing.T, s *setup, tp *topic.Topic) {
		s.grow(t, 4)
		s.records(t, tp, 8, 16)
		s.grow(t, 3)
		_, err := s.catalog.AddStorage(t.Context(), "a", 6)
		must(t, err)
	}, left: 4, told: []string{"storage topic 3 with 6 partitions", "the switch from storage topic 0 to 2"}},
	{name: "a retirement", before: func(t *testing.T, s *setup, tp *topic.Topic) {
		s.grow(t, 4)
		s.records(t, tp, 8, 16)
	}, since: func(t *testing.T, s *setup, _ *topic.Topic) {
		s.retire(t)
	}, left: 2, told: []string{"the retirement of storage topic 0"}},
	{name: "a growth and a retirement of what follows", before: func(t *testing.T, s *setup, tp *topic.Topic) {
		s.grow(t, 4)
		s.records(t, tp, 8, 16)
	}, since: func(t *testing.T, s *setup, tp *topic.Topic) {
		s.grow(t, 2)
		s.records(t, tp, 16, 24)
		s.retire(t)
		s.retire(t)
	}, left: 2, told: []string{"storage topic 2 with 2 partitions", "the retirement of storage topic 1"}},
	{name: "a retention", since: func(t *testing.T, s *setup, _ *topic.Topic) {
		_, err := s.catalog.Alter(t.Context(), "a", "", nil, topic.Retention{Bytes: 1 << 30})
		must(t, err)
		_, err = s.catalog.AddStorage(t.Context(), "a", 4)
		must(t, err)
	}, left: 2, told: []string{"the retention"}},
}

// finders are what meets a definition that went back, after which it is as it was before.
var finders = map[string]func(t *testing.T, s *setup, tp *topic.Topic) error{
	"ensure": func(t *testing.T, s *setup, _ *topic.Topic) error {
		return s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 2})
	},
	"a process that lived through it": func(t *testing.T, _ *setup, tp *topic.Topic) error { return tp.Refresh(t.Context()) },
	"a producer that begins": func(t *testing.T, s *setup, _ *topic.Topic) error {
		_, err := open(t, s.catalog, "a").Produce(t.Context(), []byte("k9"), topic.AnyPartition, []commitlog.Record{rec(9, 0)}, nil)
		return err
	},
	"a consumer that begins": func(t *testing.T, s *setup, _ *topic.Topic) error {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		before := s.definition(t, "a")
		tp := open(t, s.catalog, "a")
		return tp.Follow(ctx, slog.New(slog.DiscardHandler), func() {
			if string(s.definition(t, "a")) != string(before) {
				stop()
			}
		})
	},
}

// A registry goes back to any earlier definition, and the first process that looks brings it forward: nothing that
// was acked is hidden, nothing stands still, no process panics.
func TestADefinitionThatWentBackIsBroughtForward(t *testing.T) {
	t.Parallel()
	for _, h := range histories {
		for finder, find := range finders {
			if finder != "ensure" && (h.name == "a retention" || h.name == "an addition" && !strings.Contains(finder, "lived")) {
				continue // nothing is at odds that concerns it
			}
			t.Run(h.name+", found by "+finder, func(t *testing.T) {
				t.Parallel()
				s := newSetup(t)
				said := make(lines, 100)
				s.catalog = s.catalog.WithLogger(slog.New(slog.NewTextHandler(said, nil)))
				create(t, s.catalog, "a", topic.Config{Partitions: 2})
				tp := open(t, s.catalog, "a")
				s.records(t, tp, 0, 8)
				if h.before != nil {
					h.before(t, s, tp)
				}
				older := s.definition(t, "a")
				h.since(t, s, tp)
				must(t, tp.Refresh(t.Context()))
				want, err := s.catalog.Get(t.Context(), "a")
				must(t, err)
				if len(said) > 0 {
					t.Errorf("before it went back there was said %s", <-said)
				}
				s.define(t, "a", older)
				must(t, find(t, s, tp))
				if err := s.catalog.Resume(t.Context(), "a", ""); err != nil { // what is left of the retired
					t.Error(err)
				}
				got, err := s.catalog.Get(t.Context(), "a")
				must(t, err)
				got.Altering, got.Before = want.Altering, want.Before // which Resume has finished
				if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
					t.Errorf("found\n%+v; expected\n%+v", got, want)
				}
				line := ""
				select {
				case line = <-said:
				default:
				}
				for _, told := range h.told {
					if h.name == "a switch" && strings.Contains(finder, "produce") {
						break // for a producer it may be a switch that is under way
					}
					if !strings.Contains(line, told) || !strings.Contains(line, "the registry is behind the log") {
						t.Errorf("%q does not tell of %q", line, told)
					}
				}
				s.records(t, tp, 100, 104)
				must(t, tp.Refresh(t.Context()))
				again := open(t, s.catalog, "a")
				for _, tp := range []*topic.Topic{tp, again} {
					if v := values(t, tp)["k0"]; len(v) != h.left+1 || !slices.IsSorted(v) || v[h.left] != 100 {
						t.Errorf("the records of the key are %v; expected %d and 100", v, h.left)
					}
				}
			})
		}
	}
}

// The registry forgets a topic as a whole. A creation goes on with all that the log has of it.
func TestATopicThatTheRegistryForgotGoesOn(t *testing.T) {
	t.Parallel()
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSetup(t)
				create(t, s.catalog, "a", topic.Config{Partitions: 2, Router: topic.RangeRouter})
				tp := open(t, s.catalog, "a")
				s.records(t, tp, 0, 8)
				if h.before != nil {
					h.before(t, s, tp)
				}
				h.since(t, s, tp)
				want, err := s.catalog.Get(t.Context(), "a")
				must(t, err)
				_, err = s.reg.Txn(t.Context(), registry.Txn{Deletes: []string{"topics/a"}})
				must(t, err)
				got, err := s.catalog.Ensure(t.Context(), "a", topic.Config{Partitions: 2, Router: topic.RangeRouter})
				must(t, err)
				if got.Created = want.Created; fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
					t.Errorf("found\n%+v; expected\n%+v", got, want)
				}
				s.records(t, tp, 100, 104)
				if v := values(t, open(t, s.catalog, "a"))["k0"]; len(v) != h.left+1 || !slices.IsSorted(v) || v[h.left] != 100 {
					t.Errorf("the records of the key are %v; expected %d and 100", v, h.left)
				}
			})
		})
	}
}

// A topic that has no records yet is not begun a second time beside producers that have it open.
func TestATopicWithoutRecordsIsNotBegunASecondTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		create(t, s.catalog, "a", topic.Config{Partitions: 2})
		tp := open(t, s.catalog, "a")
		_, err := s.reg.Txn(t.Context(), registry.Txn{Deletes: []string{"topics/a"}})
		must(t, err)
		create(t, s.catalog, "a", topic.Config{Partitions: 2})
		s.records(t, tp, 0, 8)
		again := open(t, s.catalog, "a")
		s.records(t, again, 8, 16)
		if v := values(t, again)["k0"]; len(v) != 4 {
			t.Errorf("the records of the key are %v; expected four", v)
		}
	})
}

// Beside a forgotten topic the log has another one of its name. What a creation has left without records is not in its
// way; what is being mirrored to this log is none.
func TestForgottenTopicIsTheOneWithRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		create(t, s.catalog, "a", topic.Config{Partitions: 2})
		s.records(t, open(t, s.catalog, "a"), 0, 8)
		doc, err := s.catalog.Get(t.Context(), "a")
		must(t, err)
		card := doc.Card(0)
		must(t, s.log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: topic.StorageName("", "a", "empty", 0), Partitions: 2, Card: card.Encode()}))
		card.From = []int64{0, 0}
		must(t, s.log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: topic.StorageName("", "b", "copied", 0), Partitions: 2, Card: card.Encode()}))
		_, err = s.reg.Txn(t.Context(), registry.Txn{Deletes: []string{"topics/a"}})
		must(t, err)
		if got, err := s.catalog.Ensure(t.Context(), "a", topic.Config{Partitions: 2}); err != nil || got.Life != doc.Life {
			t.Errorf("%+v, %v; expected topic ID %s, which has the records", got, err, doc.Life)
		}
		if got, err := s.catalog.Ensure(t.Context(), "b", topic.Config{Partitions: 2}); !errors.Is(err, fault.Exists) {
			t.Errorf("%+v, %v; expected that the copy of a mirror is not taken up", got, err)
		}
	})
}

// A deletion that the registry forgot is an error that says so, and a deletion frees the name.
func TestATopicOfWhichTheLogHasNothingIsFreedByItsDeletion(t *testing.T) {
	t.Parallel()
	for _, anew := range []bool{false, true} {
		s := newSetup(t)
		create(t, s.catalog, "a", topic.Config{Partitions: 2})
		older := s.definition(t, "a")
		must(t, s.catalog.Delete(t.Context(), "a", ""))
		other := "another program deleted it"
		if anew {
			create(t, s.catalog, "a", topic.Config{Partitions: 2})
			s.records(t, open(t, s.catalog, "a"), 0, 4)
			life, err := s.catalog.Life(t.Context(), "a")
			must(t, err)
			other = life
		}
		s.define(t, "a", older)
		_, opened := s.catalog.Open(t.Context(), "a")
		_, added := s.catalog.AddStorage(t.Context(), "a", 2)
		for what, err := range map[string]error{"open": opened, "add": added, "create": s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 2})} {
			if !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "nothing of it") || !strings.Contains(err.Error(), other) {
				t.Errorf("%s: %v", what, err)
			}
		}
		must(t, s.catalog.Delete(t.Context(), "a", ""))
		all, err := s.log.Topics(t.Context())
		must(t, err)
		if len(all) != map[bool]int{true: 1}[anew] {
			t.Errorf("the log has %v", all)
		}
	}
}

// The log has records in a storage topic, and the one before it takes some too: a process came too late, and made it
// again. It is sealed before the pointer passes it.
func TestWhatLiesBeforeRecordsIsSealed(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	tp := open(t, s.catalog, "a")
	s.records(t, tp, 0, 8)
	_, err := s.catalog.AddStorage(t.Context(), "a", 2)
	must(t, err)
	must(t, tp.Refresh(t.Context()))
	next, err := tp.Storage(1)
	must(t, err)
	_, err = next.Append(t.Context(), 0, []commitlog.Record{rec(0, 8)}, nil)
	must(t, err)
	doc, err := s.catalog.CatchUp(t.Context(), "a")
	if err != nil || doc.Produce != 1 {
		t.Fatalf("%+v, %v; expected producers at storage topic 1", doc, err)
	}
	first, err := tp.Storage(0)
	must(t, err)
	if _, err := first.Append(t.Context(), 0, []commitlog.Record{rec(0, 9)}, nil); !errors.Is(err, fault.Sealed) {
		t.Errorf("a record behind the pointer: %v; expected Sealed", err)
	}
}

// The registry forgot a growth, and somebody gave the new storage topic more partitions, as Kafka allows: its card says
// which are the topic's.
func TestForgottenStorageTopicHasThePartitionsOfItsCard(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	doc, err := s.catalog.Get(t.Context(), "a")
	must(t, err)
	card := doc.Card(0)
	card.Partitions = append(card.Partitions, 4)
	must(t, s.log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: topic.StorageName("", "a", doc.Life, 1), Partitions: 6, Card: card.Encode()}))
	if doc, err = s.catalog.CatchUp(t.Context(), "a"); err != nil || len(doc.Storage) != 2 || doc.Storage[1].Partitions != 4 || doc.Storage[1].K != 2 {
		t.Errorf("%+v, %v; expected 4 partitions, two for each of the first", doc, err)
	}
}

// A group that only the log knows, by its hold, is known in the next storage topic when this one goes.
func TestRetirementPassesHoldsOn(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	tp := open(t, s.catalog, "a")
	st, err := tp.Storage(0)
	must(t, err)
	must(t, st.Hold(t.Context(), "g", []int64{4, 4}))
	must(t, st.Hold(t.Context(), "gone", commitlog.NoHold(2)))
	must(t, st.Hold(t.Context(), "mirror:x", []int64{4, 4}))
	must(t, st.Hold(t.Context(), "known", []int64{4, 4})) // it has no member that would end a hold
	known, err := protocol.NewGroup(s.reg, "known")
	must(t, err)
	_, err = known.EnsureMeta(t.Context(), protocol.Meta{Topic: "b", Units: 2, Assignor: "sticky"})
	must(t, err)
	s.grow(t, 3)
	s.retire(t)
	must(t, tp.Refresh(t.Context()))
	next, err := tp.Storage(1)
	must(t, err)
	holds, err := next.Holds(t.Context())
	if err != nil || len(holds) != 1 || !slices.Equal(holds["g"], []int64{0, 0, 0}) {
		t.Errorf("%v, %v; expected that g, which the registry forgot, holds all", holds, err)
	}
}

// A deletion removes what the log has of a topic, though the registry has forgotten some of it.
func TestADeletionRemovesWhatTheRegistryForgot(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	older := s.definition(t, "a")
	s.grow(t, 4)
	s.retire(t)
	s.grow(t, 8)
	s.retire(t)
	s.define(t, "a", older)
	must(t, s.catalog.Delete(t.Context(), "a", ""))
	if all, err := s.log.Topics(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("the log has %v, %v", all, err)
	}
}

// A log that was put back ends before what the definition says: the error has both numbers, and nothing changes.
func TestALogThatWentBackIsTold(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 1})
	s.records(t, open(t, s.catalog, "a"), 0, 8)
	s.grow(t, 2)
	doc, err := s.catalog.Get(t.Context(), "a")
	must(t, err)
	must(t, s.log.DeleteTopic(t.Context(), doc.Storage[0].Name))
	must(t, s.log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: doc.Storage[0].Name, Partitions: 1}))
	_, err = s.catalog.AddStorage(t.Context(), "a", 4)
	var older *topic.OlderError
	if !errors.As(err, &older) || older.Known != 8 || older.End != 0 {
		t.Errorf("%v; expected that the log ends at 0 and is known to 8", err)
	}
	if now, err := s.catalog.Get(t.Context(), "a"); err != nil || len(now.Storage) != 2 || now.End(0, 0) != 8 {
		t.Errorf("%+v, %v", now, err)
	}
}
