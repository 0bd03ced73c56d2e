// Package memregistry is a registry in memory, for tests and for programs of one process. It is the reference
// for the other stores.
//
// A Store is shared by handles, each of which stands for a process. A handle can be killed, frozen, cut off from
// the store, slowed down, and have its replies lost. All time is that of package time, so tests can use
// testing/synctest.
package memregistry

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
)

// New returns a registry with a store of its own.
func New() *registry.Registry { return NewStore().Open().Registry }

// Store is the shared state behind one or more handles.
type Store struct {
	nonce string

	mu       sync.Mutex // held for memory operations only
	m        *kv.Map
	seq      int64
	leases   map[string]*held
	handles  map[*client]struct{}
	sessions int
}

// held is the store's side of a session.
type held struct {
	ttl    time.Duration
	expiry *time.Timer
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{
		nonce:   rand.Text()[:8],
		m:       kv.New(),
		leases:  make(map[string]*held),
		handles: make(map[*client]struct{}),
	}
}

// Open returns a handle in the default namespace.
func (s *Store) Open() *Handle {
	h, err := s.OpenOptions(driver.Options{})
	if err != nil {
		panic(err) // the default options are valid
	}
	return h
}

// OpenOptions is Open with options; ErrInvalid when they are wrong.
func (s *Store) OpenOptions(o driver.Options) (*Handle, error) {
	c := &client{store: s, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), sessions: make(map[*session]struct{})}
	d, err := kv.Namespace(c, o.Namespace)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.handles[c] = struct{}{}
	s.mu.Unlock()
	return &Handle{Registry: registry.New(d), c: c}, nil
}

// SetOutage makes the store unreachable for all handles, or reachable again. Its clock goes on:
// sessions that can't renew for their TTL end.
func (s *Store) SetOutage(on bool) {
	for _, c := range s.open() {
		c.setOutage(on)
	}
}

func (s *Store) open() []*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.handles))
}

// changed signals the watches of all handles.
func (s *Store) changed(keys ...string) {
	if len(keys) == 0 {
		return
	}
	for _, c := range s.open() {
		if !c.cutOff() { // its watches are signalled when it is back
			c.watches.Changed(keys...)
		}
	}
}

func (s *Store) apply(t *driver.Txn) driver.Result {
	if failed, err := s.m.Refuse(t); err != nil {
		return driver.Result{Err: err, Failed: failed}
	}
	r := driver.Result{Versions: make([]driver.Version, 0, len(t.Puts))}
	for _, p := range t.Puts {
		s.seq++
		v := driver.Version(fmt.Sprintf("%s-%d", s.nonce, s.seq))
		s.m.Put(driver.Entry{Key: p.Key, Value: append([]byte(nil), p.Value...), Version: v, Session: p.Session})
		r.Versions = append(r.Versions, v)
	}
	for _, k := range t.Deletes {
		if s.m.Delete(k) {
			s.seq++
		}
	}
	return r
}

func (s *Store) openLease(ttl time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions++
	id := fmt.Sprintf("%s-s%d", s.nonce, s.sessions)
	s.m.AddSession(id)
	s.leases[id] = &held{ttl: ttl, expiry: time.AfterFunc(ttl, func() { s.endLease(id) })}
	return id
}

// renewLease says whether the session is still alive.
func (s *Store) renewLease(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.leases[id]
	if !ok || !l.expiry.Stop() { // expired, or about to be
		return false
	}
	l.expiry.Reset(l.ttl)
	return true
}

func (s *Store) endLease(id string) {
	s.mu.Lock()
	l, ok := s.leases[id]
	if !ok {
		s.mu.Unlock()
		return
	}
	l.expiry.Stop()
	delete(s.leases, id)
	keys := s.m.EndSession(id)
	s.seq += int64(len(keys))
	s.mu.Unlock()
	s.changed(keys...)
}

// Handle is one process's registry, and the means to hurt it.
type Handle struct {
	*registry.Registry
	c *client
}

// Kill is kill -9 of the process: its sessions end at once, its calls return ErrClosed.
func (h *Handle) Kill() { _ = h.c.Close() }

// Freeze is SIGSTOP as far as the registry can play it: the sessions are no longer renewed, and
// nothing in the process learns that they ended. Calls go on to work, for a test to play the
// process that was stopped just before a write.
func (h *Handle) Freeze() { h.c.setFrozen(true) }

// Thaw is SIGCONT.
func (h *Handle) Thaw() { h.c.setFrozen(false) }

// SetOutage cuts this process off from the store, or heals it: calls return ErrUnavailable,
// sessions are not renewed, watches are silent until it is over.
func (h *Handle) SetOutage(on bool) { h.c.setOutage(on) }

// SetLatency makes every call take at least d.
func (h *Handle) SetLatency(d time.Duration) { h.c.update(func(f *faults) { f.latency = d }) }

// LoseReplies makes the next n Apply calls take effect and still answer ErrUnknown.
func (h *Handle) LoseReplies(n int) { h.c.update(func(f *faults) { f.loseReplies = n }) }

// LoseRequests makes the next n Apply calls take no effect and answer ErrUnknown.
func (h *Handle) LoseRequests(n int) { h.c.update(func(f *faults) { f.loseRequests = n }) }

// OnApply is called with the keys that each Apply of this handle would write, before it is
// applied; an error is returned instead of applying. nil: no hook.
func (h *Handle) OnApply(hook func(keys []string) error) {
	h.c.update(func(f *faults) { f.onApply = hook })
}
