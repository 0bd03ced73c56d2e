package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testlog"
)

// lazyLog is a log of one topic whose readers see what is not durable.
type lazyLog struct {
	driver.Log
	topic *lazyTopic
}

func (l lazyLog) OpenTopic(context.Context, string) (driver.Topic, error) { return l.topic, nil }

type lazyTopic struct {
	driver.Topic
	doubt  atomic.Uint64
	settle func() error
}

func (*lazyTopic) Config() driver.TopicConfig { return driver.TopicConfig{Name: "t", Partitions: 1} }

func (*lazyTopic) Unsettled() bool { return true }

func (t *lazyTopic) Doubt() uint64 { return t.doubt.Load() }

func (t *lazyTopic) Settle(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return t.settle()
}

// unitOn is the settling of a unit that reads a topic.
func unitOn(t *testing.T, on *lazyTopic) *settling {
	t.Helper()
	topic, err := commitlog.New(lazyLog{topic: on}).Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	s := &settling{topics: []*commitlog.Topic{topic}, doubts: []uint64{topic.Doubt()}, advanced: func() {}, log: slog.New(slog.DiscardHandler), wake: make(chan struct{}, 1)}
	return s
}

func upTo(next int64) group.Progress {
	return group.Progress{Positions: []protocol.Position{{Next: next}}}
}

// Progress is told once what is below it is durable, and what comes meanwhile waits for the next sync.
func TestProgressWaitsForTheSyncOfItsRecords(t *testing.T) {
	t.Parallel()
	on := &lazyTopic{}
	s := unitOn(t, on)
	if p := s.pass(upTo(5)); p.Positions != nil {
		t.Fatalf("told before any sync: %+v", p)
	}
	on.settle = func() error {
		s.pass(upTo(7)) // while the disk is at work
		return nil
	}
	if err := s.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := s.pass(group.Progress{}); len(p.Positions) != 1 || p.Positions[0].Next != 5 {
		t.Errorf("told %+v after a sync that began at 5", p)
	}
	on.settle = func() error { return errors.New("disk error") }
	if s.sync(t.Context()) == nil || s.pass(group.Progress{}).Positions != nil {
		t.Error("told after a sync that failed")
	}
	on.settle = func() error { return nil }
	if s.last(t.Context(), group.Progress{}); s.pass(group.Progress{}).Positions == nil {
		t.Error("what waited is not told at the end")
	}
}

// Other records may have got the offsets of those that were taken back, so nothing that the unit has
// counted is stored, and it begins again at its checkpoint.
func TestAUnitThatReadWhatWasTakenBackTellsNothing(t *testing.T) {
	t.Parallel()
	on := &lazyTopic{settle: func() error { return nil }}
	s := unitOn(t, on)
	lost := make(chan error, 1)
	s.lost = func(err error) { lost <- err }
	s.pass(upTo(5))
	on.doubt.Store(1)
	s.run(t.Context(), nil)
	if err := <-lost; !errors.Is(err, fault.Unknown) {
		t.Errorf("lost with %v", err)
	}
	s.last(t.Context(), upTo(6))
	if p := s.pass(group.Progress{}); p.Positions != nil {
		t.Errorf("told %+v", p)
	}
}

// A disk may be full for a while: nobody has to handle a record first for the progress to be stored.
func TestASyncThatFailedIsTriedAgainAndItsProgressAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries, told := 0, make(chan struct{}, 1)
		s := unitOn(t, &lazyTopic{settle: func() error {
			if tries++; tries < 3 {
				return errors.New("disk full")
			}
			return nil
		}})
		s.advanced = func() { told <- struct{}{} }
		var said testlog.Buffer
		s.log = said.Logger()
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.run(ctx, nil)
		}()
		began := time.Now()
		oldest := time.UnixMilli(7)
		if p := s.pass(group.Progress{Positions: upTo(5).Positions, Oldest: oldest}); p.Positions != nil || p.Oldest != oldest {
			t.Errorf("told %+v before the sync; expected how old the oldest record is, and no more", p)
		}
		select {
		case <-told:
		case <-time.After(time.Minute):
			t.Fatal("nobody asks for the progress, or the sync was not tried again")
		}
		if p := s.pass(group.Progress{}); tries != 3 || len(p.Positions) != 1 || p.Positions[0].Next != 5 || time.Since(began) != 3*settleAgain {
			t.Errorf("told %+v after %d tries in %s", p, tries, time.Since(began))
		}
		if n := said.Count("could not be made durable"); n != 1 {
			t.Errorf("people are told %d times of one failure", n)
		}
		began = time.Now()
		s.pass(upTo(6))
		select { // as if nothing had been
		case <-told:
		case <-time.After(time.Minute):
			t.Error("what came after the failure is never stored")
		}
		if p := s.pass(group.Progress{}); len(p.Positions) != 1 || p.Positions[0].Next != 6 || time.Since(began) != 0 {
			t.Errorf("told %+v of what came after it, in %s", p, time.Since(began))
		}
		cancel()
		<-over
	})
}

// A disk may be broken for hours, and each try reads a segment.
func TestASyncThatFailsForLongIsTriedSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		s := unitOn(t, &lazyTopic{settle: func() error {
			tries.Add(1)
			return errors.New("disk error")
		}})
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.run(ctx, nil)
		}()
		for next := range int64(600) { // of a minute of commit intervals
			s.pass(upTo(next))
			time.Sleep(100 * time.Millisecond)
		}
		if n := tries.Load(); n < 12 || n > 18 {
			t.Errorf("%d tries in a minute; expected one in 5 s after the first few", n)
		}
		cancel()
		<-over
	})
}

// What was taken back is decided when the disk works again. A unit that begins anew at the error has to once more.
func TestAUnitBeginsAnewOnceWhenTheDiskWorksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var works atomic.Bool
		on := &lazyTopic{settle: func() error {
			if works.Load() {
				return nil
			}
			return errors.New("disk error")
		}}
		s := unitOn(t, on)
		var lost atomic.Int64
		s.lost = func(error) { lost.Add(1) }
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.run(t.Context(), nil)
		}()
		on.doubt.Store(2) // poisoned, and nobody knows yet what is cut off
		s.pass(upTo(5))
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := lost.Load(); n != 0 {
			t.Errorf("it began anew %d times while the disk was broken", n)
		}
		works.Store(true)
		on.doubt.Store(3)
		time.Sleep(settleSeldom)
		synctest.Wait()
		if p := s.pass(group.Progress{}); lost.Load() != 1 || p.Positions != nil {
			t.Errorf("it began anew %d times once the disk worked, and told %+v; expected once, and nothing", lost.Load(), p)
		}
		<-over
	})
}

// A drain that took too long has ended the context of its unit, and what was done is stored all the same.
func TestTheLastProgressIsStoredWhenTheDrainTookTooLong(t *testing.T) {
	t.Parallel()
	s := unitOn(t, &lazyTopic{settle: func() error { return nil }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.last(ctx, upTo(9))
	if p := s.pass(group.Progress{}); len(p.Positions) != 1 || p.Positions[0].Next != 9 {
		t.Errorf("told %+v; expected all that was done", p)
	}
}
