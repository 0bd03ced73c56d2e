package fileregistry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/internal/local"
)

const (
	beatsPerTTL = 4
	successors  = 2 // how many processes this one watches through the kernel
	minBeat     = 20 * time.Millisecond
)

// keeper keeps this process's sessions alive and notices the end of others': a crash at once,
// through the FIFOs of its successors in the ring of processes, so that one watcher wakes and
// not all; a stopped or hung process by its heartbeat, which everybody looks at. One goroutine
// owns the state; mu guards only the process's own sessions.
type keeper struct {
	s       *store
	changed chan struct{}
	died    chan string
	quit    chan struct{}
	ctx     context.Context //nolint:containedctx // its lifetime: cancelled by close
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	frozen  atomic.Bool // tests play a stopped process with it

	mu      sync.Mutex
	own     map[string]*session
	closed  bool
	opening sync.WaitGroup // sessions that are being opened; Add only under mu and before closed

	seen  map[string]sighting
	peers map[string]*local.Peer
	last  time.Time // of the last round
}

// sighting is since when a heartbeat word has been the same, by this process's monotonic clock.
type sighting struct {
	word  uint64
	since time.Time
}

func newKeeper(s *store) *keeper {
	k := &keeper{
		s: s, changed: make(chan struct{}, 1), died: make(chan string), quit: make(chan struct{}),
		own: make(map[string]*session), seen: make(map[string]sighting), peers: make(map[string]*local.Peer),
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

func (k *keeper) start() { k.wg.Go(k.run) } // joined by stop

// stop ends the goroutines; with end, it ends the process's sessions first.
func (k *keeper) stop(end bool) {
	close(k.quit)
	k.cancel()
	k.wg.Wait()
	k.mu.Lock()
	k.closed = true
	own := slices.Collect(maps.Values(k.own))
	k.mu.Unlock()
	var ids []string
	for _, x := range own {
		if end {
			x.end()
			ids = append(ids, x.info.id)
		}
	}
	if len(ids) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
		defer cancel()
		if _, _, err := k.s.call(ctx, &request{end: ids, size: 2 * opOverhead * len(ids)}); err != nil {
			k.s.log.Warn("sessions could not be ended at close; they expire", "error", err)
		}
	}
}

func (k *keeper) path(handle string) string { return k.s.fs.Path(dirName + "/" + livePrefix + handle) }

// enter announces a session that is being opened: the control file stays mapped until it is
// Done. False once the keeper was stopped.
func (k *keeper) enter() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.opening.Add(1)
	}
	return !k.closed
}

func (k *keeper) add(x *session) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.own[x.info.id] = x
	signal(k.changed)
	return true
}

func (k *keeper) remove(x *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.own, x.info.id)
}

func (k *keeper) session(id string) *session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.own[id]
}

// fenced refuses a write in the name of a session of this process that is past its deadline,
// even when nobody else has noticed yet.
func (k *keeper) fenced(id string) error {
	x := k.session(id)
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

func (k *keeper) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer k.watch(nil)
	for {
		if every := k.round(); every > 0 {
			timer.Reset(every)
		} else {
			timer.Stop() // no sessions, nothing to do
		}
		select {
		case <-timer.C:
		case <-k.changed:
		case <-k.s.core.tableNew:
		case handle := <-k.died:
			k.bury(handle)
		case <-k.quit:
			return
		}
	}
}

// round renews, looks at the others, and says when the next one is due; 0: when something changes.
func (k *keeper) round() time.Duration {
	if k.frozen.Load() {
		return minBeat
	}
	table := *k.s.core.sessions.Load()
	var shortest time.Duration
	for _, info := range table {
		if ttl := time.Duration(info.ttl); shortest == 0 || ttl < shortest {
			shortest = ttl
		}
	}
	k.renew()
	k.observe(table, shortest)
	k.watch(k.ring(table))
	if k.s.core.seen.Load() != k.s.ctl.written.Load() {
		k.s.poke() // the writer may have died before it could
	}
	if shortest == 0 {
		return 0
	}
	return max(shortest/beatsPerTTL, minBeat)
}

func (k *keeper) renew() {
	k.mu.Lock()
	own := slices.Collect(maps.Values(k.own))
	k.mu.Unlock()
	var over []string
	for _, x := range own {
		if !x.renew() {
			x.end()
			over = append(over, x.info.id)
		}
	}
	if len(over) > 0 {
		k.s.log.Warn("sessions of this process expired: it did not run for their TTL", "sessions", len(over))
		k.end(over, "")
	}
}

// observe buries the sessions whose heartbeat stands still for their TTL.
func (k *keeper) observe(table []sessionInfo, shortest time.Duration) {
	now := time.Now()
	late := now.Sub(k.last) > shortest/2+minBeat // this process itself did not run: it can't judge
	k.last = now
	var over []string
	next := make(map[string]sighting, len(table))
	for _, info := range table {
		if info.handle == k.s.handle {
			continue
		}
		slot := k.s.ctl.slot(info.slot)
		w := slot.Load()
		if !tagged(w, info.tag) {
			continue // it ended, and the slot is another's: the table is behind
		}
		was, ok := k.seen[info.id]
		if !ok || late || was.word != w {
			next[info.id] = sighting{word: w, since: now}
			continue
		}
		next[info.id] = was
		if w&dead != 0 || now.Sub(was.since) >= time.Duration(info.ttl) {
			if w&dead == 0 && !slot.CompareAndSwap(w, w|dead) {
				continue
			}
			over = append(over, info.id)
		}
	}
	k.seen = next
	k.end(over, "")
}

// ring are the handles that this process watches: its successors among those with sessions.
func (k *keeper) ring(table []sessionInfo) []string {
	if !k.s.real {
		return nil
	}
	set := make(map[string]struct{})
	for _, info := range table {
		buried := k.s.ctl.slot(info.slot).Load()&dead != 0 // its end is being written
		if info.handle != k.s.handle && !buried {
			set[info.handle] = struct{}{}
		}
	}
	all := slices.Sorted(maps.Keys(set))
	at, _ := slices.BinarySearch(all, k.s.handle)
	var out []string
	for i := range min(successors, len(all)) {
		out = append(out, all[(at+i)%len(all)])
	}
	return out
}

// watch makes handles the ones that are watched.
func (k *keeper) watch(handles []string) {
	for h, p := range k.peers {
		if !slices.Contains(handles, h) {
			p.Close()
			delete(k.peers, h)
		}
	}
	for _, h := range handles {
		if k.peers[h] != nil {
			continue
		}
		p, err := local.Watch(k.path(h))
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				k.s.log.Warn("a process can't be watched; its heartbeat has to do", "error", err)
			}
			continue
		}
		k.peers[h] = p
		k.wg.Go(func() { // joined by stop; ended by p.close or the process's death
			if p.Wait() {
				select {
				case k.died <- h:
				case <-k.quit:
				}
			}
		})
	}
}

// bury ends the sessions of a dead process.
func (k *keeper) bury(handle string) {
	if p := k.peers[handle]; p != nil {
		p.Close()
		delete(k.peers, handle)
	}
	var ids []string
	for _, info := range *k.s.core.sessions.Load() {
		if info.handle == handle {
			bury(k.s.ctl.slot(info.slot), info.tag)
			ids = append(ids, info.id)
		}
	}
	k.end(ids, handle)
}

// end writes the end of sessions, without keeping the keeper from its rounds; what fails is
// tried again when a later round sees them dead. Of a dead handle, the FIFO goes as well.
func (k *keeper) end(ids []string, handle string) {
	if len(ids) == 0 {
		return
	}
	k.wg.Go(func() { // joined by stop
		_, _, err := k.s.call(k.ctx, &request{end: ids, size: 2 * opOverhead * len(ids)})
		if err != nil {
			if k.ctx.Err() == nil {
				k.s.log.Warn("the end of sessions can't be written yet", "sessions", len(ids), "error", err)
			}
			return
		}
		if handle != "" {
			_ = k.s.fs.Remove(dirName + "/" + livePrefix + handle)
		}
	})
}

// sweep ends the sessions of processes that died while nobody watched, and removes what FIFOs
// they left.
func (k *keeper) sweep(ctx context.Context) {
	if !k.s.real {
		return
	}
	dead := make(map[string][]string)
	for _, info := range *k.s.core.sessions.Load() {
		if _, known := dead[info.handle]; !known && !local.Gone(k.path(info.handle)) {
			continue
		}
		bury(k.s.ctl.slot(info.slot), info.tag)
		dead[info.handle] = append(dead[info.handle], info.id)
	}
	for _, ids := range dead {
		if _, _, err := k.s.call(ctx, &request{end: ids, size: 2 * opOverhead * len(ids)}); err != nil {
			return // the rounds go on trying
		}
	}
	list, err := k.s.fs.ReadDir(dirName)
	if err != nil {
		return
	}
	for _, e := range list {
		handle, ok := strings.CutPrefix(e.Name(), livePrefix)
		if ok && local.Gone(k.path(handle)) {
			_ = k.s.fs.Remove(dirName + "/" + e.Name())
		}
	}
}
