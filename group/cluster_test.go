package group_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry/memregistry"
)

const units = 8

// pace is how long the imagined handlers take for one record.
const pace = 10 * time.Millisecond

// done is one processed record.
type done struct {
	offset int64
	member string
	epoch  int64
	at     time.Time
}

// cluster is some members on one store, and what they processed.
type cluster struct {
	t     *testing.T
	store *memregistry.Store
	admin *protocol.Group

	mu     sync.Mutex
	ledger [units][]done
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, store: memregistry.NewStore()}
	h := c.store.Open()
	t.Cleanup(func() { _ = h.Close() })
	g, err := protocol.NewGroup(h.Registry, "g")
	must(t, err)
	c.admin = g
	return c
}

// proc is a process with one member.
type proc struct {
	c      *cluster
	name   string
	h      *memregistry.Handle
	cancel context.CancelFunc
	end    chan struct{}
	err    error         // of Run, after end
	dead   chan struct{} // closed by kill: handlers do nothing more
	cfg    group.Config

	mu     sync.Mutex
	starts []*group.Unit
	live   map[int]*group.Unit
	hang   func(u *group.Unit, offset int64) bool          // the handler of it ignores everything but dead
	wait   func(u *group.Unit, offset int64) time.Duration // that the handler takes; nil: pace
	events []string
}

func (c *cluster) start(name string, opts ...func(*proc)) *proc {
	c.t.Helper()
	p := &proc{c: c, name: name, h: c.store.Open(), end: make(chan struct{}), dead: make(chan struct{}), live: map[int]*group.Unit{}}
	p.cfg = group.Config{Registry: p.h.Registry, Group: "g", Topic: "t", Units: units, Member: name, Events: p.listen()}
	for _, o := range opts {
		o(p)
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	p.cancel = cancel
	go func() { // joined by stop, kill or close
		defer close(p.end)
		p.err = group.Run(ctx, p.cfg, group.WorkerFunc(p.work))
	}()
	c.t.Cleanup(func() { p.kill() })
	return p
}

func (p *proc) listen() group.Events {
	note := func(format string, args ...any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.events = append(p.events, fmt.Sprintf(format, args...))
	}
	return group.Events{
		Joined:     func(string) { note("joined") },
		Assigned:   func(u int, epoch int64, from, why string) { note("assigned %d: %s", u, why) },
		Revoked:    func(u int, epoch int64, why string) { note("revoked %d: %s", u, why) },
		HandedOver: func(u int, epoch int64, to, why string) { note("moved %d to %q: %s", u, to, why) },
		Fenced:     func(u int, epoch int64, why string) { note("fenced %d: %s", u, why) },
		Paused:     func(why string) { note("paused: %s", why) },
		Trouble:    func(u int, what string, err error) { note("trouble %d: %s: %v", u, what, err) },
	}
}

// work handles one record after the other.
func (p *proc) work(ctx context.Context, u *group.Unit) error {
	p.mu.Lock()
	p.starts = append(p.starts, u)
	if p.live[u.Number()] != nil {
		p.c.t.Errorf("%s: two workers of unit %d", p.name, u.Number())
	}
	p.live[u.Number()] = u
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.live, u.Number())
		p.mu.Unlock()
	}()

	var mu sync.Mutex
	var next int64
	var busy time.Time
	if c := u.Checkpoint(); c != nil {
		next = c.Positions[0].Next
	}
	u.Track(func() group.Progress {
		mu.Lock()
		defer mu.Unlock()
		return group.Progress{Positions: []protocol.Position{{Partition: u.Number(), Next: next}}, Oldest: busy}
	})
	for {
		mu.Lock()
		busy = time.Now()
		mu.Unlock()
		if p.hang != nil && p.hang(u, next) {
			<-p.dead
			return nil
		}
		takes := pace
		if p.wait != nil {
			takes = p.wait(u, next)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.dead:
			return nil
		case <-time.After(takes):
		}
		p.c.handled(p.name, u, next)
		mu.Lock()
		next, busy = next+1, time.Time{}
		mu.Unlock()
		select {
		case <-u.Draining():
			return nil
		default:
		}
	}
}

func (c *cluster) handled(member string, u *group.Unit, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger[u.Number()] = append(c.ledger[u.Number()], done{offset, member, u.Epoch(), time.Now()})
}

// of returns what was processed of a unit.
func (c *cluster) of(unit int) []done {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ledger[unit])
}

// last is the newest record processed of a unit.
func (c *cluster) last(unit int) done {
	d := c.of(unit)
	return d[len(d)-1]
}

// kill is kill -9.
func (p *proc) kill() {
	select {
	case <-p.dead:
		return
	default:
	}
	close(p.dead)
	p.h.Kill()
	p.cancel()
	<-p.end
}

// stop is SIGTERM.
func (p *proc) stop() error {
	p.cancel()
	<-p.end
	return p.err
}

// owns lists the units that the process runs.
func (p *proc) owns() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var us []int
	for u := range p.live {
		us = append(us, u)
	}
	slices.Sort(us)
	return us
}

func (p *proc) startsOf(unit int) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.starts {
		if u.Number() == unit {
			n++
		}
	}
	return n
}

// allStarts is how many workers the process has started.
func (p *proc) allStarts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.starts)
}

func (p *proc) saw(substr string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.events, func(e string) bool { return contains(e, substr) })
}

// bubble runs f in virtual time.
func bubble(t *testing.T, f func(t *testing.T, c *cluster)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, newCluster(t)) })
}

// each says that each unit was processed in order, without a gap, and that no more than replays
// records were processed twice.
func (c *cluster) each(replays int) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	again := 0
	for u := range c.ledger {
		var next int64
		var epoch int64
		for _, d := range c.ledger[u] {
			if d.offset > next {
				c.t.Errorf("unit %d: offset %d processed after %d: records were skipped", u, d.offset, next-1)
			}
			if d.epoch < epoch {
				c.t.Errorf("unit %d: offset %d processed at epoch %d after epoch %d", u, d.offset, d.epoch, epoch)
			}
			if d.offset < next {
				again++
			}
			next, epoch = max(next, d.offset+1), d.epoch
		}
		if next == 0 {
			c.t.Errorf("unit %d: nothing was processed", u)
		}
	}
	if again > replays {
		c.t.Errorf("%d records were processed twice; at most %d are allowed", again, replays)
	}
}

// shared says that every unit runs on exactly one of the processes, and that they have an even share.
func (c *cluster) shared(ps ...*proc) {
	c.t.Helper()
	var all []int
	for _, p := range ps {
		o := p.owns()
		all = append(all, o...)
		if len(o) < units/len(ps) || len(o) > (units+len(ps)-1)/len(ps) {
			c.t.Errorf("%s runs %v of %d units; want an even share among %d", p.name, o, units, len(ps))
		}
	}
	slices.Sort(all)
	if len(all) != units || len(slices.Compact(all)) != units {
		c.t.Errorf("running units are %v; want each once", all)
	}
}

// pass lets time go by and everything that is due come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
