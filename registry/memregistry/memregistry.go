// Package memregistry is a registry in memory, for tests and for programs of one process. It is the reference
// for the other stores.
//
// A Store is shared by handles, each of which stands for a process. A handle can be killed, frozen, cut off from
// the store, slowed down, and have its replies lost. All time is that of package time, so tests can use
// testing/synctest.
package memregistry

import (
	"crypto/rand"
	"fmt"
	"log/slog"
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
	c := &client{store: s, log: o.Logger, sessions: make(map[*session]struct{})}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
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
	out := make([]*client, 0, len(s.handles))
	for c := range s.handles {
		out = append(out, c)
	}
	return out
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
