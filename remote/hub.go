// Package remote holds the sessions of consumers outside of the process. A member session owns partitions of a group;
// workers share the shards of a subscription that this process has. What a session is, core decides; this package puts
// it between an engine, whose handlers leave the record and never block, and a connection.
//
// All errors are kinds of internal/fault, and GoneError.
package remote

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/remote/core"
	"github.com/ringfence/ringfence/subscription"
)

// Hub holds the sessions of a namespace in this process.
type Hub struct {
	start  string // of the process, in the ID of each session
	groups consumer.Groups
	subs   *subscription.Subscriptions
	logger *slog.Logger
	began  time.Time
	ctx    context.Context //nolint:containedctx // of all that runs for sessions: they outlive requests
	stop   context.CancelFunc
	wg     sync.WaitGroup
	work   sync.WaitGroup // members, and what they start

	mu       sync.Mutex
	closed   bool
	sessions map[string]*Session
	pools    map[*pool]struct{}
	workers  map[string]*pool // by subscription
	gone     map[string]gone
}

// gone is a session that is over.
type gone struct {
	why string
	at  time.Time
}

// handOuts counts what this process has handed out, in all namespaces: the second half of a token.
var handOuts atomic.Uint64 //nolint:gochecknoglobals // of the process, as the token says

const (
	tickEvery = 200 * time.Millisecond
	stoodFor  = 800 * time.Millisecond // a tick that is later than that says that the process stood still
	goneFor   = 10 * time.Minute       // how long it is known why a session ended
)

// NewHub makes a hub. start names the process, and no other one ever. Close ends it.
func NewHub(start string, groups *consumer.Groups, subs *subscription.Subscriptions) *Hub {
	h := &Hub{
		start: start, groups: *groups, subs: subs, logger: groups.Logger, began: time.Now(),
		sessions: map[string]*Session{}, pools: map[*pool]struct{}{}, workers: map[string]*pool{}, gone: map[string]gone{},
	}
	// A leave with a doubtful write interrupts all members of a session: clients must not do that to others.
	h.groups.Sessions = protocol.NewSessions(groups.Registry)
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.wg.Go(h.run)
	return h
}

func (h *Hub) now() time.Duration { return time.Since(h.began) }

// run is the clock of all sessions.
func (h *Hub) run() {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	last := h.now()
	for {
		select {
		case <-t.C:
		case <-h.ctx.Done():
			return
		}
		now := h.now()
		late := now - last
		last = now
		h.mu.Lock()
		pools := make([]*pool, 0, len(h.pools))
		for p := range h.pools {
			pools = append(pools, p)
		}
		for id, g := range h.gone {
			if time.Since(g.at) > goneFor {
				delete(h.gone, id)
			}
		}
		h.mu.Unlock()
		for _, p := range pools {
			p.do(func(now time.Duration) {
				if late > stoodFor {
					p.core.Late(late - tickEvery)
				}
				p.core.Tick(now)
			})
		}
	}
}

// Close ends all sessions. They learn of it, get no more records, and may answer what is out for as long as a partition
// may drain, or until ctx ends; then the rest is released.
func (h *Hub) Close(ctx context.Context) {
	h.mu.Lock()
	h.closed = true
	all := slices.Collect(maps.Values(h.sessions))
	workers := slices.Collect(maps.Values(h.workers))
	h.mu.Unlock()
	until := h.now() + time.Minute
	if at, ok := ctx.Deadline(); ok {
		until = h.now() + time.Until(at)
	}
	for _, s := range all {
		s.pool.do(func(now time.Duration) { s.core.Leave(now, min(until, now+s.params.Drain)) })
		s.depart()
	}
	for _, p := range workers {
		p.depart()
	}
	over := make(chan struct{})
	go func() { // joined below
		h.work.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
	for _, s := range all {
		s.end(core.ByDrain)
	}
	<-over
	h.stop()
	h.wg.Wait()
}

// begin runs f until Close, which waits for it. False: the hub is closed.
func (h *Hub) begin(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.work.Go(f)
	}
	return !h.closed
}

// GoneError says that a session is over.
type GoneError struct {
	ID, Why string        // Why is a word of the protocol; "": it is not known here, as its process is another one
	Retry   time.Duration // not before it should the client register anew
}

func (e *GoneError) Error() string {
	why := e.Why
	if why == "" {
		why = "it is not known here"
	}
	return fmt.Sprintf("session %q is over (%s); expected the client to register anew", e.ID, why)
}

// Unwrap serves errors.Is.
func (e *GoneError) Unwrap() error { return fault.NotFound }

// retryAfter is when a client whose session ended for a reason may come back.
func retryAfter(why string) time.Duration {
	if why == core.ByFence {
		return time.Minute // two that share a name would fence each other without end
	}
	return 0
}

// Find returns a session of this process, or a GoneError.
func (h *Hub) Find(id string) (*Session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[id]; s != nil {
		return s, nil
	}
	why := h.gone[id].why
	return nil, &GoneError{ID: id, Why: why, Retry: retryAfter(why)}
}

// Start returns the start of the process that a session's ID names; "" for what is no ID.
func Start(id string) string {
	start, rest, ok := strings.Cut(id, "-")
	if !ok || len(rest) != 26 {
		return ""
	}
	return start
}

// newID is 128 random bits behind the start of the process: an ID never returns.
func (h *Hub) newID() string { return h.start + "-" + rand.Text() }
