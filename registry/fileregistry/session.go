package fileregistry

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
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
	slot     word
	deadline atomic.Pointer[time.Time]
	done     chan struct{}
	once     sync.Once
}

func (s *store) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	info := sessionInfo{id: newID(), handle: s.handle, tag: newTag(), ttl: int64(ttl)}
	if !s.keeper.enter(info.id) {
		return nil, fmt.Errorf("file registry: %w", fault.Closed)
	}
	x, err := s.openSession(ctx, &info)
	if !s.keeper.leave(info.id, x) && err == nil {
		err = fmt.Errorf("file registry: %w", fault.Closed)
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

func (s *store) openSession(ctx context.Context, info *sessionInfo) (*session, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.keeper.ctx, cancel)() // Close does not wait for this
	sent := time.Now()
	// The core has its own copy: it may still write when this call was given up.
	own := *info
	r := &request{open: &own, size: 2 * (len(info.id) + len(info.handle) + 2*opOverhead)}
	if _, _, err := s.call(ctx, r); err != nil {
		if s.keeper.ctx.Err() != nil {
			err = fmt.Errorf("file registry: %w: %w", fault.Closed, err)
		}
		return nil, err
	}
	x := &session{s: s, info: own, slot: s.ctl.slot(own.slot), done: make(chan struct{})}
	deadline := sent.Add(time.Duration(info.ttl))
	x.deadline.Store(&deadline)
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
	_, _, err := x.s.call(ctx, endOf([]string{x.info.id}))
	return err
}

// end makes the session over for this process; false when it was already.
func (x *session) end() (first bool) {
	x.once.Do(func() {
		first = true
		declareDead(x.slot, x.info.tag)
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
