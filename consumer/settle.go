package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/fault"
)

// settling delays a unit's checkpoint until the records below it are on stable storage. Otherwise the
// registry may keep the checkpoint through a loss of power that takes them; their offsets are given out
// again, and the new records would lie below the checkpoint, and never be handled.
//
// Only logs at level os need that. Handlers see the records at once all the same; the progress waits, for
// one sync in each commit interval.
type settling struct {
	topics   []*commitlog.Topic
	doubts   []uint64 // of each, before the first record was read
	lost     func(error)
	advanced func() // makes the group ask for the progress again
	log      *slog.Logger
	wake     chan struct{} // holds one

	mu    sync.Mutex
	asked group.Progress // waits for a sync; without positions: nothing does
	safe  group.Progress // on stable storage and not reported yet
}

// settleAgain is the first pause after a failed sync; the pauses double up to settleSeldom: each try reads a segment,
// and the disk may be broken for hours.
const (
	settleAgain  = 200 * time.Millisecond
	settleSeldom = 5 * time.Second
)

// settling makes that of a unit that has read nothing yet; nil when all that can be read is on stable
// storage. lost is called when records that were read were taken back.
func (w *unitWorker) settling(in []dispatch.Input, writes []*commitlog.Topic, advanced func(), lost func(error)) (*settling, error) {
	topics, err := w.unsettled(in)
	if err != nil {
		return nil, err
	}
	for _, t := range writes {
		if t.Unsettled() {
			topics = append(topics, t)
		}
	}
	if len(topics) == 0 {
		return nil, nil
	}
	s := &settling{topics: topics, lost: lost, advanced: advanced, log: w.Logger, wake: make(chan struct{}, 1)}
	for _, t := range topics {
		s.doubts = append(s.doubts, t.Doubt())
	}
	return s, nil
}

// unsettled returns the storage topics of these inputs whose readers may see records that are not on stable
// storage.
func (w *unitWorker) unsettled(in []dispatch.Input) ([]*commitlog.Topic, error) {
	var topics []*commitlog.Topic
	for _, i := range in {
		t, err := w.Topic.Storage(i.Storage)
		if err != nil {
			return nil, err
		}
		if t.Unsettled() && !slices.Contains(topics, t) {
			topics = append(topics, t)
		}
	}
	return topics, nil
}

// settle makes durable what can be read of these inputs.
func (w *unitWorker) settle(ctx context.Context, in []dispatch.Input) error {
	topics, err := w.unsettled(in)
	if err != nil {
		return err
	}
	return settleAll(ctx, topics)
}

func settleAll(ctx context.Context, topics []*commitlog.Topic) error {
	for _, t := range topics {
		if err := t.Settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pass takes the progress of a unit, and returns the part that can be stored by now. It does not block.
func (s *settling) pass(p group.Progress) group.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Positions != nil {
		s.asked = p
		s.again()
	}
	safe := s.safe
	s.safe = group.Progress{}
	safe.Oldest = p.Oldest
	return safe
}

// again wakes run; if it is at work, it looks once more.
func (s *settling) again() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run syncs for what was passed, until stop is closed or ctx ends.
func (s *settling) run(ctx context.Context, stop <-chan struct{}) {
	retry := time.NewTimer(0)
	retry.Stop()
	defer retry.Stop()
	pause := time.Duration(0) // not 0: the last try has failed
	for {
		wake := s.wake
		if pause > 0 {
			wake = nil // progress passed meanwhile waits for the next try
		}
		select {
		case <-wake:
		case <-retry.C:
		case <-stop:
			return
		case <-ctx.Done():
			return
		}
		err := s.sync(ctx)
		if err == nil {
			pause = 0
			continue
		}
		// A failed sync does not say what was taken back: the next successful one decides that, and a unit that
		// began anew before would have to once more.
		if errors.Is(err, errTakenBack) {
			s.lost(err)
			return
		}
		if pause == 0 && ctx.Err() == nil {
			s.log.Warn("the records below a checkpoint could not be made durable, so it is not stored; that is tried again", "error", err)
		}
		pause = min(max(2*pause, settleAgain), settleSeldom)
		retry.Reset(pause)
	}
}

// sync makes durable what waits for it.
func (s *settling) sync(ctx context.Context) error {
	s.mu.Lock()
	p := s.asked
	s.mu.Unlock()
	if p.Positions == nil {
		return nil
	}
	if err := settleAll(ctx, s.topics); err != nil {
		return err
	}
	if err := s.takenBack(); err != nil {
		return err
	}
	s.mu.Lock()
	s.safe = p
	if same(s.asked, p) {
		s.asked = group.Progress{}
	}
	s.mu.Unlock()
	s.advanced()
	return nil
}

var errTakenBack = errors.New("records that were read may have been taken back")

// takenBack is an error once records that the unit has read may have been taken back: it has to begin at its
// checkpoint again, as other records have got their offsets.
func (s *settling) takenBack() error {
	for i, t := range s.topics {
		if t.Doubt() != s.doubts[i] {
			return fmt.Errorf("topic %q had a write or sync error, and %w; the unit begins at its checkpoint again: %w", t.Config().Name, errTakenBack, fault.Unknown)
		}
	}
	return nil
}

func same(a, b group.Progress) bool {
	return len(a.Positions) == len(b.Positions) && (len(a.Positions) == 0 || &a.Positions[0] == &b.Positions[0])
}

// last waits for the final progress of a unit that has ended, and for what was passed before. What can't be
// made durable now is not reported: the next owner repeats it.
func (s *settling) last(ctx context.Context, p group.Progress) {
	s.mu.Lock()
	if p.Positions != nil {
		s.asked = p
	}
	s.mu.Unlock()
	if err := s.sync(context.WithoutCancel(ctx)); err != nil { // a drain that took too long has ended ctx
		s.log.Warn("the records below the last checkpoint of a unit could not be made durable, so it is not stored, and its next owner repeats them", "error", err)
	}
}
