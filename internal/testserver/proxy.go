package testserver

import (
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Fault is what a Proxy does to one direction of the connections through it.
type Fault struct {
	// Drop loses what comes, the end of the connection included: the other side sees it open for
	// ever. A connection that lost bytes goes on losing, and is reset by Heal.
	Drop bool
	// Delay passes everything on this much later, in order.
	Delay time.Duration
	// After, when not 0, passes that many bytes on before Drop begins.
	After int64
}

// Proxy is a TCP proxy in front of one server whose network a test may break.
type Proxy struct {
	t        testing.TB
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change of the faults
	faults  [2]Fault      // by direction
	refuse  bool
	heals   int
	links   map[*link]struct{}
	lost    [2]int64 // bytes, up and down
	harm    Harm     // but what was lost
	closed  bool
}

// Harm counts what the faults of a Proxy did: a test sees that the network was broken.
type Harm struct {
	LostUp, LostDown int64 // bytes that were dropped
	Delayed          int64 // bytes that were held back, both ways together
	Reset            int   // connections that Reset and Refuse ended
	Refused          int   // connections that Refuse did not admit
}

// NewProxy listens on a loopback port and passes connections on to target, which is host:port or
// a URL with them. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		target = u.Host
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, target: target, listener: l, links: make(map[*link]struct{}), changed: make(chan struct{})}
	p.wg.Go(p.accept) // joined by close
	t.Cleanup(p.close)
	return p
}

// Addr is the host:port that it listens on.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL is raw with the proxy's host and port in place of the server's.
func (p *Proxy) URL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		p.t.Fatalf("proxy: a malformed URL: %v", err)
	}
	u.Host = p.Addr()
	return u.String()
}

// Up breaks the way from clients to the server, for the connections there are and new ones.
func (p *Proxy) Up(f Fault) { p.set(func() { p.faults[up] = f }) }

// Down breaks the way from the server to clients: with Drop, replies to what the server executes are lost.
func (p *Proxy) Down(f Fault) { p.set(func() { p.faults[down] = f }) }

// Blackhole loses everything in both directions, and connects no client: a cable that was pulled.
func (p *Proxy) Blackhole() {
	p.set(func() { p.faults = [2]Fault{{Drop: true}, {Drop: true}} })
}

// Swallow loses all on the connections there are, for ever and unheard, as a router does that forgot them; new ones work.
func (p *Proxy) Swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.lost = [2]bool{true, true}
	}
}

// Reset ends all connections with a TCP reset.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.reset() {
			p.harm.Reset++
		}
	}
}

// Refuse ends all connections, and new ones at once, until Heal.
func (p *Proxy) Refuse() {
	p.set(func() { p.refuse = true })
	p.Reset()
}

// Heal ends all faults. Connections that lost bytes are reset.
func (p *Proxy) Heal() {
	p.set(func() {
		p.faults, p.refuse = [2]Fault{}, false
		p.heals++
		for l := range p.links {
			if l.lost[0] || l.lost[1] {
				l.reset()
			}
		}
	})
}

// Harm is what the faults did so far.
func (p *Proxy) Harm() Harm {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.harm
	h.LostUp, h.LostDown = p.lost[up], p.lost[down]
	return h
}

// Connections is how many are open.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Reset()
	p.set(func() {}) // wakes what is delayed
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.wg.Go(func() { p.serve(c.(*net.TCPConn)) })
	}
}
