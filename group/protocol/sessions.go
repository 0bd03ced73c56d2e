package protocol

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// Sessions gives all members of a process one session, or one for each TTL, in place of one for each member: a
// daemon with a thousand subscriptions would renew a thousand.
//
// A session still stands for the process. It is lost for all members once one of them loses it, and Open never
// returns a lost one. It ends in the store when all members have let go of it, each once what it runs has stopped.
// The leave of one member is different: its entry no longer goes with the session, so Leave takes it away. Where
// that may not have worked, or a write that lands later may undo it, the session is lost for all. A store that goes
// back brings such an entry back, under a session that lives on, so Sessions looks for those now and then.
type Sessions struct {
	reg  *registry.Registry
	look time.Duration // between two looks at what was taken away

	turn chan struct{} // capacity 1: held to open one
	mu   sync.Mutex
	open map[time.Duration]*shared
}

const (
	lookForReturned = 30 * time.Second
	// mostWithdrawn bounds the entries that are looked at. With more of them the session is lost for all,
	// once.
	mostWithdrawn = 1000
)

// NewSessions shares the sessions of this process's members in reg. It opens nothing.
func NewSessions(reg *registry.Registry) *Sessions {
	return &Sessions{reg: reg, look: lookForReturned, turn: make(chan struct{}, 1), open: map[time.Duration]*shared{}}
}

// shared is a session that several members share.
type shared struct {
	registry.Session
	doubter driver.Doubter // the session, if its store has doubts; or nil

	of    *Sessions
	ttl   time.Duration
	lost  chan struct{}      // closed when it counts as ended
	stop  context.CancelFunc // the last member let go
	ended chan struct{}      // closed when its goroutine has

	// guarded by Sessions.mu
	holders   int
	gone      bool // lost is closed
	withdrawn []withdrawn
}

// withdrawn is an entry that its member took away.
type withdrawn struct{ key, incarnation string }

// Share is the part of a session that one member has. It is a Session.
type Share struct {
	*shared
	once sync.Once
}

// Open gives a share of the session of that TTL. It opens one if there is none, or the last one was lost.
func (s *Sessions) Open(ctx context.Context, ttl time.Duration) (*Share, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the session of this process: %w", ctx.Err())
	}
	defer func() { <-s.turn }()
	if x := s.have(ttl); x != nil {
		return x, nil
	}
	inner, err := s.reg.OpenSession(ctx, ttl)
	if err != nil {
		return nil, err
	}
	watched, stop := context.WithCancel(context.WithoutCancel(ctx))
	x := &shared{Session: inner, of: s, ttl: ttl, holders: 1, lost: make(chan struct{}), stop: stop, ended: make(chan struct{})}
	x.doubter, _ = inner.(driver.Doubter)
	s.mu.Lock()
	s.open[ttl] = x
	s.mu.Unlock()
	go x.watch(watched) // joined by the last Close
	return &Share{shared: x}, nil
}

// have returns another share of the open session; nil: there is none.
func (s *Sessions) have(ttl time.Duration) *Share {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.open[ttl]
	if x == nil {
		return nil
	}
	select {
	case <-x.Session.Done():
		return nil // and its goroutine is about to say so
	default:
	}
	x.holders++
	return &Share{shared: x}
}

// watch loses the session for all when it ends. It waits for nothing else: members run on until then.
func (x *shared) watch(ctx context.Context) {
	defer close(x.ended)
	var looks sync.WaitGroup
	defer looks.Wait()
	defer x.stop()
	looks.Go(func() { x.lookAgain(ctx) }) // joined above
	select {
	case <-x.Session.Done():
		x.Lose()
	case <-ctx.Done():
	}
}

// lookAgain looks for entries that came back, now and then until ctx ends.
func (x *shared) lookAgain(ctx context.Context) {
	look := time.NewTicker(x.of.look)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			x.remove(ctx)
		}
	}
}

// remove deletes entries that came back.
func (x *shared) remove(ctx context.Context) {
	x.of.mu.Lock()
	all := x.withdrawn
	x.of.mu.Unlock()
	for _, w := range all {
		if ctx.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, max(x.ttl, time.Second))
		e, err := x.of.reg.Get(ctx, w.key)
		if err == nil && e.Session == x.ID() && incarnationOf(e) == w.incarnation {
			_, _ = x.of.reg.Txn(ctx, registry.Txn{Checks: []registry.Check{{Key: w.key, Version: e.Version}}, Deletes: []string{w.key}}) // the next look finds what this did not do
		}
		cancel()
	}
}

// incarnationOf is the start of the member that wrote an entry; "": unknown.
func incarnationOf(e registry.Entry) string {
	var m Member
	if decode(e, &m) != nil {
		return ""
	}
	return m.Incarnation
}

// Done is closed when the session counts as ended.
func (x *shared) Done() <-chan struct{} { return x.lost }

// Doubtful is that of the session, if its store has such doubts.
func (x *shared) Doubtful() bool { return x.doubter != nil && x.doubter.Doubtful() }

// Lose ends the session for all members that share it. Open returns another one from now on.
func (x *shared) Lose() {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.lose()
}

func (x *shared) lose() {
	if x.gone {
		return
	}
	x.gone = true
	close(x.lost)
	if x.of.open[x.ttl] == x {
		delete(x.of.open, x.ttl)
	}
}

// Leave lets go of the session of a member that leaves, which has put no entry under it but the one that t takes
// away; nil: none at all. With doubt there may be others, or may come: then only the end of the session will do.
func (x *Share) Leave(ctx context.Context, t *registry.Txn, incarnation string, doubt bool) error {
	if x.alone() {
		return x.Close(ctx) // which takes all away
	}
	if t != nil && !doubt {
		_, err := x.of.reg.Txn(ctx, *t)
		doubt = err != nil && !(errors.Is(err, registry.ErrConflict) && x.hasNone(ctx, t.Deletes, incarnation))
		x.noteWithdrawn(t.Deletes, incarnation)
	}
	if doubt {
		x.Lose()
	}
	return x.Close(ctx)
}

// hasNone reports that none of the entries is left under this session and by this start of its member: the group was
// deleted, or the member has been replaced.
func (x *shared) hasNone(ctx context.Context, keys []string, incarnation string) bool {
	for _, key := range keys {
		e, err := x.of.reg.Get(ctx, key)
		switch {
		case errors.Is(err, registry.ErrNotFound):
		case err != nil:
			return false
		case e.Session == x.ID() && (incarnationOf(e) == incarnation || incarnationOf(e) == ""):
			return false
		}
	}
	return true
}

// alone reports whether no other member has the session, and keeps others from getting it.
func (x *Share) alone() bool {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	if x.holders > 1 {
		return false
	}
	if x.of.open[x.ttl] == x.shared {
		delete(x.of.open, x.ttl)
	}
	return true
}

// noteWithdrawn remembers entries that were taken away.
func (x *shared) noteWithdrawn(keys []string, incarnation string) {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	for _, key := range keys {
		x.withdrawn = append(x.withdrawn[:len(x.withdrawn):len(x.withdrawn)], withdrawn{key, incarnation})
	}
	if len(x.withdrawn) > mostWithdrawn {
		x.lose()
	}
}

// Close lets go of the session, and ends it if no other member has it: until then its entries stay. A member
// that has put entries calls Leave instead, or Lose first.
func (x *Share) Close(ctx context.Context) (err error) {
	x.once.Do(func() {
		x.of.mu.Lock()
		x.holders--
		last := x.holders == 0
		if last && x.of.open[x.ttl] == x.shared {
			delete(x.of.open, x.ttl)
		}
		x.of.mu.Unlock()
		if !last {
			return
		}
		x.stop()
		<-x.ended
		err = errors.Join(err, x.Session.Close(ctx))
	})
	return err
}
