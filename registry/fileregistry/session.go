package fileregistry

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

// FIFOs are named by the handle that holds them.
const (
	livePrefix = "live-"
	tempPrefix = "temp-"
)

func newID() string { return rand.Text()[:16] }

func newTag() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])>>tagShift | 1
}

// session is a session of this process.
type session struct {
	s        *store
	info     sessionInfo
	slot     *atomic.Uint64
	deadline atomic.Pointer[time.Time]
	done     chan struct{}
	once     sync.Once
}

func (s *store) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if !s.keeper.enter() {
		return nil, fmt.Errorf("file registry: %w", fault.Closed)
	}
	defer s.keeper.opening.Done()
	sent := time.Now()
	info := sessionInfo{id: newID(), handle: s.handle, tag: newTag(), ttl: int64(ttl), pid: os.Getpid()}
	r := &request{open: &info, size: 2 * (len(info.id) + len(info.handle) + 2*opOverhead)}
	if _, _, err := s.call(ctx, r); err != nil {
		return nil, err
	}
	x := &session{s: s, info: info, slot: s.ctl.slot(info.slot), done: make(chan struct{})}
	deadline := sent.Add(ttl)
	x.deadline.Store(&deadline)
	if !s.keeper.add(x) {
		return nil, fmt.Errorf("file registry: %w", fault.Closed)
	}
	return x, nil
}

func (x *session) ID() string            { return x.info.id }
func (x *session) Done() <-chan struct{} { return x.done }
func (x *session) Deadline() time.Time   { return *x.deadline.Load() }

// Close ends the session. When the store can't be written now, the others end it after its TTL.
func (x *session) Close(ctx context.Context) error {
	if !x.end() {
		return nil
	}
	_, _, err := x.s.call(ctx, &request{end: []string{x.info.id}, size: 2 * opOverhead})
	return err
}

// end makes the session over for this process; false when it was already.
func (x *session) end() (first bool) {
	x.once.Do(func() {
		first = true
		bury(x.slot, x.info.tag)
		close(x.done)
		x.s.keeper.remove(x)
	})
	return first
}

// renew moves the heartbeat on and the deadline with it; false when the session is over.
func (x *session) renew() bool {
	sent := time.Now()
	if sent.After(x.Deadline()) || !renew(x.slot, x.info.tag) {
		return false
	}
	deadline := sent.Add(time.Duration(x.info.ttl))
	x.deadline.Store(&deadline)
	return true
}

// alive is what the owner of a session knows before a write in its name is accepted.
func (x *session) alive() bool {
	w := x.slot.Load()
	return tagged(w, x.info.tag) && w&dead == 0 && !time.Now().After(x.Deadline())
}
