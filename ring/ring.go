package ring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/group"
)

// A member is two paths that meet in atomic pointers. One goroutine (loop) looks at the store after each hint
// and does what the mode asks for (backend.look). It stores a View, for people and programs that send keys
// on, and a right: that of an anchor ring for all keys, with the anchor in it; in a table ring the workers of
// the group store one for each slot that they are given. ShouldHandle reads the right and nothing else. The
// right's lease decides whether its session has certainly not run out: so an answer costs no lock and no
// call, and when the store hangs the yes ends by itself. Hints may be lost or doubled: each only says to
// look, and a look comes by itself now and then.

// Ring is a member of a ring. Its methods may be called concurrently.
type Ring struct {
	cfg  Config
	keys keys
	me   memberDoc
	meta metaDoc

	view   atomic.Pointer[View]
	anchor atomic.Pointer[right]   // of an anchor ring
	slots  []atomic.Pointer[right] // of a table ring: those that this member owns

	stop      context.CancelFunc
	wg        sync.WaitGroup // every goroutine
	refreshes chan chan error
	hints     chan struct{} // look at the store again
	settled   chan struct{} // closed when this member is established
	ended     chan struct{} // closed with err set, when it has ceased to be a member for good
	endOnce   sync.Once
	err       error

	backend backend
	closing sync.Once
	closed  error
}

// right is what a yes rests on.
type right struct {
	lease  *lease
	epoch  int64
	anchor *assign.Anchor // of an anchor ring
}

// backend is the difference of the modes. One goroutine uses it.
type backend interface {
	// look reads the ring, does what follows from it, and says when to look again without a hint; after
	// an error at least the time to begin with. A permanent error ends the membership.
	look(ctx context.Context) (again time.Duration, err error)
	// lost is closed when look should be called because the session ended; it may be nil.
	lost() <-chan struct{}
	// leave ends the membership, after the loop has ended.
	leave(ctx context.Context) error
}

// permanent marks an error that does not pass by waiting.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Times that are not worth an option.
const (
	sweep      = 30 * time.Second      // a look at the store without a hint
	retryFirst = 20 * time.Millisecond // after a failure of the store; doubles
	retryMost  = time.Second
)

// Join makes this process a member of a ring and returns as soon as the ring is known;
// WaitEstablished waits for its part. From then on the membership maintains itself, also through
// outages of the store, until Close.
//
// Errors: ErrInvalid with every fault of cfg; ErrExists when the ring has another mode or number of
// slots; otherwise the error of the store.
func Join(ctx context.Context, cfg Config) (*Ring, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	meta, err := ensureMeta(ctx, cfg)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // for people only
	r := &Ring{
		cfg: cfg, keys: keys{cfg.Name}, meta: meta,
		me:        memberDoc{Incarnation: cfg.Incarnation, Host: host, PID: os.Getpid(), Joined: time.Now().UnixMilli()},
		refreshes: make(chan chan error), hints: make(chan struct{}, 1),
		settled: make(chan struct{}), ended: make(chan struct{}),
	}
	began, err := r.announce(ctx, false)
	if err != nil {
		return nil, fmt.Errorf("ring %q: %w", cfg.Name, err)
	}
	r.view.Store(&View{Ring: cfg.Name, Mode: meta.Mode, Slots: meta.Slots})
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	watched := r.keys.prefix()
	if meta.Mode == Table {
		t, err := newTable(r, began)
		if err != nil {
			stop()
			return nil, errors.Join(err, began.session.Close(ctx))
		}
		r.backend, watched = t, t.group.WatchPrefix()
		watch := t.group.Registry()
		r.wg.Go(func() { t.run(inner) }) // joined by Close, as are all of r.wg
		r.wg.Go(func() { group.Watch(inner, watch, watched, r.hint) })
		r.wg.Go(func() { group.Watch(inner, cfg.Registry, r.keys.start(cfg.Member), r.hint) })
	} else {
		r.backend = &anchorRing{r: r, session: began.session, lease: newLease(began.session, false), start: began.version}
		r.wg.Go(func() { group.Watch(inner, cfg.Registry, watched, r.hint) })
	}
	r.wg.Go(func() { r.loop(inner) })
	return r, nil
}

// ShouldHandle reports whether this member handles a key now, and under which epoch; the epoch is 0
// when it does not. It reads no store, takes no lock and allocates nothing.
func (r *Ring) ShouldHandle(key string) (mine bool, epoch int64) {
	var p *right
	if r.slots != nil {
		p = r.slots[assign.Slot(assign.HashKey(key), len(r.slots))].Load()
	} else if p = r.anchor.Load(); p != nil && p.anchor.Owner(key) != r.cfg.Member {
		return false, 0
	}
	if p == nil || !p.lease.holds() {
		return false, 0
	}
	return true, p.epoch
}

// Owner returns the member that handles a key, as this member saw it last, and the epoch; "" when
// there is none. Use it to send a key on: only ShouldHandle is a promise.
func (r *Ring) Owner(key string) (member string, epoch int64) { return r.view.Load().Owner(key) }

// Members returns the members, as this one saw them last, sorted by ID.
func (r *Ring) Members() []Member { return r.view.Load().Members }

// View returns the ring as this member saw it last.
func (r *Ring) View() *View { return r.view.Load() }

// Member is this member's ID.
func (r *Ring) Member() string { return r.cfg.Member }

// WaitEstablished waits until this member is in the ring, has its part, and hears of changes.
// Errors: that of ctx; ErrFenced, ErrNotFound or ErrClosed when it has ceased to be a member.
func (r *Ring) WaitEstablished(ctx context.Context) error {
	if isClosed(r.settled) {
		return nil
	}
	select {
	case <-r.settled:
		return nil
	case <-r.ended:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("ring %q: member %q is not established: %w", r.cfg.Name, r.cfg.Member, ctx.Err())
	}
}

// Refresh reads the ring from the store now. Correctness never needs it: the member hears of
// changes. Errors are those of the store, and as of WaitEstablished.
func (r *Ring) Refresh(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case r.refreshes <- answer:
	case <-r.ended:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-r.ended:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Done is closed when this process has ceased to be a member for good: closed, or as Err says.
func (r *Ring) Done() <-chan struct{} { return r.ended }

// Err is why Done is closed: ErrFenced when the member was started elsewhere, ErrNotFound when the
// ring was deleted, ErrClosed after Close; nil while it is a member.
func (r *Ring) Err() error {
	if isClosed(r.ended) {
		return r.err
	}
	return nil
}

// Close leaves the ring: it tells the others, answers for an anchor ring's keys until the drain is
// over, and hands over a table ring's slots. It joins all goroutines. When it could not tell the
// others, the error says so, and they find out by the end of the session. Closing twice gives the
// first result.
//
// In Anchor mode the end of ctx cuts short the drain, and calls that the store does not answer. In
// Table mode ctx has no effect, because no slot may go elsewhere before its drain is over: Close
// takes as long as the drain, and up to two TTLs and three seconds more from a store that does not
// answer.
func (r *Ring) Close(ctx context.Context) error {
	r.closing.Do(func() {
		r.stop()
		r.wg.Wait()
		r.closed = r.backend.leave(ctx)
		r.end(fmt.Errorf("ring %q: %w", r.cfg.Name, ErrClosed))
	})
	return r.closed
}

// end ends the membership; the first reason counts.
func (r *Ring) end(err error) {
	r.endOnce.Do(func() {
		r.anchor.Store(nil)
		r.err = err
		close(r.ended)
	})
}

// loop looks at the store after each hint until ctx ends or the membership is over.
func (r *Ring) loop(ctx context.Context) {
	var waiting []chan error
	for pause := retryFirst; ; {
		again, err := r.backend.look(ctx)
		for _, answer := range waiting {
			answer <- err
		}
		waiting = nil
		var final permanent
		switch {
		case ctx.Err() != nil:
			return
		case errors.As(err, &final):
			r.cfg.Logger.Warn("the membership is over", "ring", r.cfg.Name, "member", r.cfg.Member, "error", err)
			r.end(final.error)
			return
		case err != nil:
			if pause == retryFirst {
				r.cfg.Logger.Warn("the ring can't be read or joined; trying again", "ring", r.cfg.Name, "member", r.cfg.Member, "error", err)
			}
			again, pause = max(again, pause), min(2*pause, retryMost)
		default:
			pause = retryFirst
		}
		select {
		case <-r.hints:
		case <-time.After(again):
		case <-r.backend.lost():
		case answer := <-r.refreshes:
			waiting = append(waiting, answer)
		case <-ctx.Done():
			return
		}
	}
}

// hint asks the loop for a look.
func (r *Ring) hint() {
	select {
	case r.hints <- struct{}{}:
	default:
	}
}

// show publishes a view.
func (r *Ring) show(now *View) {
	old := r.view.Load()
	if old.same(now) {
		return
	}
	r.view.Store(now)
	if f := r.cfg.Events.Changed; f != nil {
		f(old, now)
	}
}

// settle marks this member as established; the loop calls it.
func (r *Ring) settle() {
	if !isClosed(r.settled) {
		close(r.settled)
	}
}

// bound limits a store call: one that does not answer must not hold up what comes after.
func (r *Ring) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(r.cfg.TTL, time.Second))
}
