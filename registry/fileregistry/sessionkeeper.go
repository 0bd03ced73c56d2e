package fileregistry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/internal/presence"
)

// sessionKeeper keeps this process's sessions alive and notices the end of others': a crash at once,
// through the FIFOs of its successors in the ring of processes (ring.go), so that one watcher wakes
// and not all; a stopped or hung process by its heartbeat, which all look at (round.go). One
// goroutine owns the state; mu guards only the process's own sessions.
type sessionKeeper struct {
	s       *store
	changed chan struct{}
	died    chan string
	written chan error // the fate of the request under way
	quit    chan struct{}
	ctx     context.Context //nolint:containedctx // its lifetime: cancelled by close
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex
	own     map[string]*session
	opened  map[string]struct{} // sessions that are being opened
	closed  bool
	opening sync.WaitGroup // as many as opened; Add only under mu and before closed

	seen    map[string]sighting
	watched presence.Watchers[string]
	gone    map[string]struct{} // dead processes whose FIFO is still there
	last    time.Time           // of the last round

	ending    bool      // a request to end sessions is under way
	failed    bool      // the last one failed, and the log was told
	notBefore time.Time // of the next one
}

func newSessionKeeper(s *store) *sessionKeeper {
	k := &sessionKeeper{
		s: s, changed: make(chan struct{}, 1), died: make(chan string), written: make(chan error), quit: make(chan struct{}),
		own: make(map[string]*session), opened: make(map[string]struct{}),
		seen: make(map[string]sighting), gone: make(map[string]struct{}),
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.watched.Watch = k.await
	return k
}

func (k *sessionKeeper) start() { k.wg.Go(k.run) } // joined by stop

// stop ends the goroutines, and openings that are under way; with end, it ends all sessions that
// this process has in the journal then.
func (k *sessionKeeper) stop(end bool) {
	close(k.quit)
	k.cancel()
	k.wg.Wait()
	k.mu.Lock()
	k.closed = true
	own := make([]*session, 0, len(k.own))
	for _, x := range k.own {
		own = append(own, x)
	}
	k.mu.Unlock()
	k.opening.Wait()
	if !end {
		return
	}
	for _, x := range own {
		x.end()
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	// A reading first: what the core took before it is in the table then.
	_, _, err := k.s.call(ctx, &request{list: true, prefix: nothing})
	var ids []string
	for _, info := range *k.s.core.sessions.Load() {
		if info.handle == k.s.handle {
			declareDead(k.s.ctl.slot(info.slot), info.tag)
			ids = append(ids, info.id)
		}
	}
	if err == nil && len(ids) > 0 {
		_, _, err = k.s.call(ctx, endOf(ids))
	}
	if err != nil && len(ids) > 0 && !errors.Is(err, fault.Closed) { // gone with their directory otherwise
		k.s.log.Warn("sessions could not be ended at close; they expire", "error", err)
	}
}

// endOf is a request that ends sessions; those that have ended already are no error.
func endOf(ids []string) *request { return &request{end: ids, size: 2 * opOverhead * len(ids)} }

// enter announces a session that is being opened: the control file stays mapped until leave. False
// once the keeper was stopped.
func (k *sessionKeeper) enter(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.opening.Add(1)
		k.opened[id] = struct{}{}
	}
	return !k.closed
}

// leave is for the end of an opening; x is nil when the caller gets no session. If it is in the journal
// nonetheless, or comes to be, the rounds end it.
func (k *sessionKeeper) leave(id string, x *session) (kept bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.opening.Done()
	delete(k.opened, id)
	if x != nil && !k.closed {
		k.own[id] = x
		kept = true
	}
	signal(k.changed)
	return kept
}

func (k *sessionKeeper) remove(x *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.own, x.info.id)
}

// fenced refuses a write in the name of a session of this process that is past its deadline,
// even before another process has noticed.
func (k *sessionKeeper) fenced(id string) error {
	k.mu.Lock()
	x := k.own[id]
	k.mu.Unlock()
	if x == nil || x.alive() {
		return nil
	}
	signal(k.changed) // the next round ends it
	return fmt.Errorf("session %q was not renewed for its TTL of %s: %w", id, time.Duration(x.info.ttl), fault.Fenced)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (k *sessionKeeper) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer k.watched.Stop()
	for {
		if every := k.round(); every > 0 {
			timer.Reset(every)
		} else {
			timer.Stop() // there is nothing to wait for
		}
		select {
		case <-timer.C:
		case <-k.changed:
		case <-k.s.core.tableNew:
		case <-k.s.core.dir.told:
			k.lose()
			return
		case handle := <-k.died:
			k.announceDeath(handle)
		case err := <-k.written:
			k.ended(err)
		case <-k.quit:
			return
		}
	}
}
