package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

func TestAUnitReadsTwoPartitionsAndItsHeirRepeatsNothing(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]of{"memory": inMemory(), "directory": inDirectory(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, open, 4)
			s.produce(10, 0, 1, 2, 3)
			for turn := range int64(2) { // of two members, one after the other
				var got seen
				stop := s.member(s.config(fmt.Sprint("m", turn), pairs, got.handle))
				end := 10 + 3*turn
				s.await("the end of both units", func(u []protocol.Unit) bool {
					return at(u, 0, 0, 0, end, end) && at(u, 1, 0, 2, end, end)
				})
				must(t, stop())
				for p := range 4 {
					got.expect(t, 0, p, 10*turn, end)
				}
				s.produce(3, 0, 1, 2, 3)
			}
			meta, err := s.g.Meta(t.Context())
			if err != nil || meta.Units != 2 || meta.Layout != "pairs" {
				t.Errorf("the group is %+v, %v", meta, err)
			}
		})
	}
}

// Where a member stands in one partition says nothing of the other: its heir begins in each where the one
// checkpoint of both is, and what it left behind can't be stored any more.
func TestAnHeirGoesOnInBothPartitionsAndTheStaleOwnerInNone(t *testing.T) {
	t.Parallel()
	log, reg := memlog.NewStore(nil), memregistry.NewStore()
	var handles []*memregistry.Handle
	s := newStage(t, func(*testing.T) (*commitlog.Log, *registry.Registry) {
		handles = append(handles, reg.Open())
		return log.Open(), handles[len(handles)-1].Registry
	}, 2)
	s.produce(10, 0, 1)
	var stale protocol.Grant
	busy, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	a := s.config("a", pairs, func(u *group.Unit, r *dispatch.Record) error {
		if r.Partition == 1 && r.Offset == 3 {
			once.Do(func() { stale = u.Grant(); close(busy) })
			<-release // it does not heed its context
		}
		return nil
	})
	a.Group.SessionTTL = time.Second
	stopA := s.member(a)
	<-busy
	s.await("what can be finished", func(u []protocol.Unit) bool { return at(u, 0, 0, 0, 10, 3) })
	handles[len(handles)-1].Freeze()

	var got seen
	stopB := s.member(s.config("b", pairs, got.handle))
	s.await("the end", func(u []protocol.Unit) bool { return at(u, 0, 0, 0, 10, 10) })
	got.expect(t, 0, 0, 10, 10)
	got.expect(t, 0, 1, 3, 10)
	u, err := s.g.Unit(t.Context(), 0)
	must(t, err)
	late := protocol.Checkpoint{Positions: []protocol.Position{{Next: 10}, {Partition: 1, Next: 4}}}
	if err := s.g.Commit(t.Context(), stale, late, u.CheckpointVersion); !errors.Is(err, fault.Fenced) {
		t.Errorf("the stale owner commits: %v; expected that it is fenced", err)
	}
	close(release)
	_ = stopA() // it has lost its session
	must(t, stopB())
	s.await("the end still", func(u []protocol.Unit) bool { return at(u, 0, 0, 0, 10, 10) })
}

func TestASeekInOneOfTwoPartitionsRepeatsThatOne(t *testing.T) {
	t.Parallel()
	s := newStage(t, inMemory(), 2)
	s.produce(6, 0, 1)
	var got seen
	stop := s.member(s.config("a", pairs, got.handle))
	both := func(u []protocol.Unit) bool { return at(u, 0, 0, 0, 6, 6) }
	s.await("the end", both)
	infos, err := pairs.seek(t.Context(), s.g, s.top, SeekOffset(2), &SeekOptions{Partitions: []int{1}}, s.top.Unchanged(), slog.New(slog.DiscardHandler))
	if err != nil || len(infos) != 1 || infos[0].Partition != 1 || infos[0].Checkpoint != 2 {
		t.Fatalf("the seek went to %+v, %v", infos, err)
	}
	s.await("the end again", both)
	must(t, stop())
	got.expect(t, 0, 0, 0, 6)
	if n := len(got.of[partitionID{0, 1}]); n != 6+4 || got.of[partitionID{0, 1}][6] != 2 {
		t.Errorf("of the partition that was sought %v were handled", got.of[partitionID{0, 1}])
	}
	infos, err = pairs.seek(t.Context(), s.g, s.top, SeekEarliest, &SeekOptions{}, s.top.Unchanged(), slog.New(slog.DiscardHandler))
	if err != nil || len(infos) != 2 {
		t.Fatalf("the seek of all went to %+v, %v", infos, err)
	}
	if u, err := s.g.Unit(t.Context(), 0); err != nil || !at([]protocol.Unit{u}, 0, 0, 0, 0, 0) {
		t.Errorf("after a seek of all the unit is %+v, %v", u, err)
	}
}

func TestANewStorageTopicWaitsForBothPartitions(t *testing.T) {
	t.Parallel()
	s := newStage(t, inMemory(), 2)
	s.produce(4, 0, 1)
	var got seen
	release := make(chan struct{})
	stop := s.member(s.config("a", pairs, func(u *group.Unit, r *dispatch.Record) error {
		if r.Storage == 0 && r.Partition == 1 && r.Offset == 3 {
			<-release
		}
		if r.Storage == 1 {
			select {
			case <-release:
			default:
				t.Error("a record of the new storage topic came while one of the old is at work")
			}
		}
		return got.handle(u, r)
	}))
	_, err := s.catalog.AddStorage(t.Context(), "orders", 4)
	must(t, err)
	_, err = s.catalog.Switch(t.Context(), "orders")
	must(t, err)
	must(t, s.top.Refresh(t.Context()))
	s.produce(5, 0, 1, 2, 3)
	s.await("the first partition's end", func(u []protocol.Unit) bool { return len(u) == 3 && at(u, 0, 0, 0, 4, 3) })
	current := func(ctx context.Context, _ string) (*topic.Topic, error) { return s.top, s.top.Refresh(ctx) }
	s.until("units that wait", func() (string, bool) {
		info, err := pairs.Describe(t.Context(), s.reg, "g", current)
		ok := err == nil && len(info.Units) == 3 && info.Lag == 21 && len(info.Units[0].Positions) == 2 && info.Units[0].Lag == 1 && info.Units[2].Lag == 10
		return fmt.Sprintf("%+v, %v", info, err), ok && info.Units[1].Phase == api.Waiting && info.Units[2].Phase == api.Waiting
	})
	close(release)
	s.await("the end", func(u []protocol.Unit) bool { return at(u, 1, 1, 0, 5, 5) && at(u, 2, 1, 2, 5, 5) })
	must(t, stop())
	for p := range 4 {
		got.expect(t, 1, p, 0, 5)
	}
	info, err := pairs.Describe(t.Context(), s.reg, "g", current)
	if err != nil || info.Lag != 0 || info.Units[0].Phase != api.Finished {
		t.Errorf("the group is described as %+v, %v", info, err)
	}
}

// A crash before the first checkpoint must not move where "latest" is, in any partition.
func TestLatestIsStoredForAllThatAUnitReads(t *testing.T) {
	t.Parallel()
	s := newStage(t, inMemory(), 2)
	s.produce(7, 0, 1)
	var got seen
	a, b := s.config("a", pairs, got.handle), s.config("b", pairs, got.handle)
	a.Latest, b.Latest = true, true
	stop := s.member(a)
	s.await("its start", func(u []protocol.Unit) bool { return at(u, 0, 0, 0, 7, 7) })
	s.produce(2, 1)
	s.await("the end", func(u []protocol.Unit) bool { return at(u, 0, 0, 0, 7, 9) })
	must(t, stop())
	s.produce(1, 0, 1)
	stop = s.member(b)
	s.await("the end again", func(u []protocol.Unit) bool { return at(u, 0, 0, 0, 8, 10) })
	must(t, stop())
	got.expect(t, 0, 0, 7, 8)
	got.expect(t, 0, 1, 7, 10)
}

// A second new member may store the hold for a later end once the first has looked for its start, and that one puts it
// right before it reads.
func TestAMemberThatBeginsLowersAHoldAboveItsStart(t *testing.T) {
	t.Parallel()
	store, reg := memlog.NewStore(nil), memregistry.NewStore()
	var log *watchedLog
	s := newStage(t, func(*testing.T) (*commitlog.Log, *registry.Registry) {
		log = &watchedLog{Log: store.Driver()}
		return commitlog.New(log), reg.Open().Registry
	}, 1)
	s.produce(5, 0)
	held := make(chan Held, 1)
	c := s.config("a", Layout{}, func(*group.Unit, *dispatch.Record) error {
		now, err := HeldBy(t.Context(), s.top, "g")
		held <- now
		return err
	})
	c.Latest = true
	log.looked = func() { // for the hold
		log.looked = func() { // for the start
			if err := holdAt(t.Context(), s.top, 0, "g", []int64{6}); err != nil {
				t.Error(err)
			}
		}
	}
	stop := s.member(c)
	s.await("its start", func(u []protocol.Unit) bool { return at(u, 0, 0, 0, 5) })
	s.produce(1, 0)
	if now := <-held; now.at(0, 0) != 5 {
		t.Errorf("the group holds %v; it has begun at offset 5", now)
	}
	must(t, stop())
}

func TestAGroupHasOneLayout(t *testing.T) {
	t.Parallel()
	s := newStage(t, inMemory(), 2)
	s.produce(3, 0, 1)
	var got seen
	stop := s.member(s.config("a", pairs, got.handle))
	s.await("the end", func(u []protocol.Unit) bool { return at(u, 0, 0, 0, 3, 3) })
	for _, c := range []struct {
		what string
		err  error
		want error
	}{
		{"a member", run(t.Context(), s.config("b", Layout{}, got.handle)), fault.Exists},
		{"a seek", second(Layout{}.seek(t.Context(), s.g, s.top, SeekEarliest, &SeekOptions{}, s.top.Unchanged(), slog.Default())), fault.Invalid},
		{"a description", second(Layout{}.Describe(t.Context(), s.reg, "g", func(context.Context, string) (*topic.Topic, error) { return s.top, nil })), fault.Invalid},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s that goes by another layout: %v; expected %v", c.what, c.err, c.want)
		}
	}
	must(t, stop())
	got.expect(t, 0, 1, 0, 3)
	if u, err := s.g.Unit(t.Context(), 0); err != nil || !at([]protocol.Unit{u}, 0, 0, 0, 3, 3) {
		t.Errorf("the unit is %+v, %v", u, err)
	}
}

func second[T any](_ T, err error) error { return err }
