package shard

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/dispatch"
)

// slots bound the attempts of a shard under way. Its engine begins no more than those, and neither does the
// pump: each waits here only for what the other has begun. The methods of nil bound nothing.
type slots struct {
	most atomic.Int64 // 0: there is no bound

	mu      sync.Mutex
	used    int64
	waiting []chan struct{} // the first one is the next
}

// slotPatience is how long a handler waits for a slot before its record waits in the engine again.
const slotPatience = 250 * time.Millisecond

var errNoSlot = spared{error: errors.New("nothing of the subscription is to begin now")}

// take takes a slot, and says whether it had to wait. The caller gives back what it returns, which is nil
// without a bound.
func (l *slots) take(ctx context.Context) (taken *slots, waited bool, _ error) {
	if l == nil || l.most.Load() == 0 {
		return nil, false, nil
	}
	l.mu.Lock()
	if len(l.waiting) == 0 && l.free() {
		l.used++
		l.mu.Unlock()
		return l, false, nil
	}
	mine := make(chan struct{})
	l.waiting = append(l.waiting, mine)
	l.mu.Unlock()
	err := await(ctx, mine)
	if err == nil {
		return l, true, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, mine); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else { // it came just now
		l.used--
		l.pass()
	}
	return nil, true, err
}

// await waits for a slot. An engine's handler waits for a while only, and until the engine starts no
// further one: a drain and the handler's time are for those that have begun.
func await(ctx context.Context, mine <-chan struct{}) error {
	last := dispatch.Last(ctx)
	var late <-chan time.Time
	if last != nil {
		timer := time.NewTimer(slotPatience)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-mine:
	case <-late:
		return errNoSlot
	case <-last:
		return errNoSlot
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-last:
		return errNoSlot
	default:
		return nil
	}
}

// taken reports whether a new attempt would have to wait.
func (l *slots) taken() bool {
	if l == nil || l.most.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) > 0 || !l.free()
}

// release gives a slot back.
func (l *slots) release() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used--
	l.pass()
}

// free reports whether a slot is free; the caller holds mu.
func (l *slots) free() bool {
	most := l.most.Load()
	return most == 0 || l.used < most
}

// pass gives free slots to those that wait; the caller holds mu.
func (l *slots) pass() {
	for len(l.waiting) > 0 && l.free() {
		l.used++
		close(l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
}

// bound changes the number of slots; what is under way goes on.
func (l *slots) bound(most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most.Store(int64(most))
	l.pass()
}

// atMost returns n, or the number of slots if that is less.
func (l *slots) atMost(n int) int {
	if most := int(l.most.Load()); most > 0 {
		return min(n, most)
	}
	return n
}
