package pipe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ringfence/ringfence"
)

// Tally counts what a consumer processes, bounds that, and notices when there is nothing to do.
type Tally struct {
	process ringfence.Handler
	max     int64  // 0: no end
	reached func() // called when max records were processed

	mu      sync.Mutex
	started int64                  // records running or processed, of which at most max
	done    int64                  // processed
	running int                    // in process now
	failing map[int]map[int64]bool // by partition: offsets that failed and will be tried again
	freed   chan struct{}          // closed when a started record failed, so that another may start
	last    time.Time              // when something last happened
	awaited time.Time              // until then a partition may still come, before which nothing could be there to do
}

// gathering is how long a consumer without a partition waits for one: joining a group takes a while on a busy host.
const gathering = 5 * time.Second

// NewTally counts what process processes. When most records were (0: no end) it calls reached.
func NewTally(process ringfence.Handler, most int64, reached func()) *Tally {
	now := time.Now()
	return &Tally{
		process: process, max: most, reached: reached, failing: make(map[int]map[int64]bool), freed: make(chan struct{}),
		last: now, awaited: now.Add(gathering),
	}
}

// errNoRoom is the answer for a record that is not started: it has not failed.
var errNoRoom = noRoomError{errors.New("enough records were started")}

type noRoomError struct{ error }

// Uncounted serves dispatch.
func (noRoomError) Uncounted() (time.Duration, bool) { return time.Second, true }

// Handle processes one record, once there is room for it below the maximum.
func (t *Tally) Handle(ctx context.Context, m *ringfence.Message) error {
	if err := t.admit(ctx); err != nil {
		return err
	}
	err := t.process(ctx, m)
	if t.finish(m, err) {
		t.reached()
	}
	return err
}

func (t *Tally) admit(ctx context.Context) error {
	for {
		t.mu.Lock()
		if t.max == 0 || t.started < t.max {
			t.started++
			t.running++
			t.mu.Unlock()
			return nil
		}
		over, freed := t.done == t.max, t.freed
		t.mu.Unlock()
		if over {
			return errNoRoom // the end is near; the record stays for the next start
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// finish notes how a record ended, and says whether it was the last one.
func (t *Tally) finish(m *ringfence.Message, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	t.last = time.Now()
	if err != nil {
		t.started--
		if t.failing[m.Partition] == nil {
			t.failing[m.Partition] = make(map[int64]bool)
		}
		t.failing[m.Partition][m.Offset] = true
	} else {
		t.done++
		delete(t.failing[m.Partition], m.Offset)
	}
	last := t.max > 0 && t.done == t.max && err == nil
	if err != nil || last {
		close(t.freed)
		t.freed = make(chan struct{})
	}
	return last
}

// Owns notes that a partition came: what is in it is to be read first.
func (t *Tally) Owns() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.awaited = time.Now(), time.Time{}
}

// Forget drops the failures of a partition that has another owner now.
func (t *Tally) Forget(partition int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.failing, partition)
}

// Processed is how many records were processed.
func (t *Tally) Processed() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

// idleFor is how long nothing has been running or waiting for another try, and no partition came.
func (t *Tally) idleFor() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	busy := t.running
	for _, f := range t.failing {
		busy += len(f)
	}
	if busy > 0 {
		return 0
	}
	since := t.last
	if t.awaited.After(since) {
		since = t.awaited
	}
	return max(0, time.Since(since))
}

// Watch calls idle once there was nothing to do for so long (0: never), and returns then or when ctx ends.
func (t *Tally) Watch(ctx context.Context, after time.Duration, idle func()) {
	if after == 0 {
		return
	}
	timer := time.NewTimer(after)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		quiet := t.idleFor()
		if quiet >= after {
			idle()
			return
		}
		timer.Reset(after - quiet)
	}
}
