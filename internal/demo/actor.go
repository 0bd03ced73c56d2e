package demo

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// actor is one consumer on the stage: a process, or a member that plays one.
type actor interface {
	kill() error   // as kill -9: it does not get to say anything
	freeze() error // as SIGSTOP
	thaw() error   // as SIGCONT, after which it writes what it wanted to write when it was frozen
	leave() error  // as SIGTERM
	// wait returns when it has ended. An end by kill is no error.
	wait() error
	ended() <-chan struct{}
	pid() int // 0: it is no process
}

// process is a consumer in a process of its own.
type process struct{ *harness.Process }

func (p process) pid() int               { return p.PID() }
func (p process) ended() <-chan struct{} { return p.Done() }
func (p process) kill() error            { return p.Kill() }
func (p process) freeze() error          { return p.Freeze(context.Background()) }
func (p process) thaw() error            { return p.Thaw() }
func (p process) leave() error           { return p.Leave() }
func (p process) wait() error            { return p.Wait() }

// player is a consumer within this process, on a registry in memory that can cut it off.
type player struct {
	handle *memregistry.Handle
	gate   *gate
	dead   atomic.Bool
	end    context.CancelFunc
	done   chan struct{}
	err    error // valid when done is closed
	haunt  atomic.Pointer[func(context.Context)]
}

// startPlayer runs a consumer as goroutines, which end when it is told to leave or was killed.
func startPlayer(ctx context.Context, handle *memregistry.Handle, c harness.MemberConfig, file io.Closer) *player {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &player{handle: handle, gate: new(gate), end: cancel, done: make(chan struct{})}
	tell := c.Tell
	c.Tell = func(e history.Event) {
		if !p.dead.Load() {
			tell(e)
		}
	}
	c.Pass = p.gate.pass // a frozen process runs no code
	c.Store = handle.Registry
	c.OnReady = func(haunt func(context.Context)) { p.haunt.Store(&haunt) }
	go func() { // joined by wait
		defer close(p.done)
		p.err = errors.Join(harness.RunMember(ctx, c), file.Close())
	}()
	return p
}

func (p *player) pid() int               { return 0 }
func (p *player) ended() <-chan struct{} { return p.done }

// kill abandons the member: what it still does reaches neither the store nor the history. Its
// goroutines end with the demo.
func (p *player) kill() error {
	p.dead.Store(true)
	p.handle.Kill()
	return nil
}

func (p *player) freeze() error {
	p.gate.shut()
	p.handle.Freeze()
	return nil
}

func (p *player) thaw() error {
	p.handle.Thaw()
	p.gate.open()
	if haunt := p.haunt.Load(); haunt != nil {
		(*haunt)(context.Background())
	}
	return nil
}

func (p *player) leave() error {
	p.end()
	return nil
}

func (p *player) wait() error {
	if p.dead.Load() {
		p.end() // nobody hears of it
	}
	<-p.done
	if p.dead.Load() || errors.Is(p.err, fault.Closed) {
		return nil
	}
	return p.err
}

// gate holds up all who pass while it is shut.
type gate struct{ closed atomic.Pointer[chan struct{}] }

func (g *gate) shut() {
	c := make(chan struct{})
	g.closed.CompareAndSwap(nil, &c)
}

func (g *gate) open() {
	if c := g.closed.Swap(nil); c != nil {
		close(*c)
	}
}

func (g *gate) pass() {
	if c := g.closed.Load(); c != nil {
		<-*c
	}
}
