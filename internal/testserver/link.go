package testserver

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// A link is one connection through a proxy. Its fields below client are under Proxy.mu.
type link struct {
	client *net.TCPConn
	server *net.TCPConn // nil until it is connected
	lost   [2]bool      // by direction: bytes were lost
	passed [2]int64     // by direction: bytes let through before Drop began
	ended  bool         // by a reset
}

// The directions.
const (
	up   = 0
	down = 1
)

// piece is what one read gave; the last has the error that ended the direction.
type piece struct {
	at   time.Time
	data []byte
	err  error
}

// reset ends it, and says whether it had not been ended before.
func (l *link) reset() bool {
	first := !l.ended
	l.ended = true
	for _, c := range []*net.TCPConn{l.client, l.server} {
		if c != nil {
			abort(c)
		}
	}
	return first
}

// abort closes with a TCP reset.
func abort(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

func (p *Proxy) serve(client *net.TCPConn) {
	l := &link{client: client}
	if !p.add(l) {
		abort(client)
		return
	}
	defer p.remove(l)
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		abort(client)
		return
	}
	if !p.connected(l, server.(*net.TCPConn)) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.carry(l, up, l.client, l.server) })
	both.Go(func() { p.carry(l, down, l.server, l.client) })
	both.Wait()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refuse {
		p.harm.Refused++
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) connected(l *link, server *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.server = server
	if p.closed || p.refuse {
		l.reset()
		return false
	}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// carry copies one direction until it ends: a reader that never waits for a delay, and a writer.
func (p *Proxy) carry(l *link, way int, from, to *net.TCPConn) {
	pieces := make(chan piece, 1024)
	var reader sync.WaitGroup
	defer reader.Wait()
	reader.Go(func() {
		defer close(pieces)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			pieces <- piece{time.Now(), buf[:n], err}
			if err != nil {
				return
			}
		}
	})
	broken := false
	for x := range pieces { // to its end also when the writing failed, for the reader's sake
		data, lost := p.admit(l, way, x)
		if broken {
			continue
		}
		if len(data) > 0 {
			if _, err := to.Write(data); err != nil {
				broken = true
				abort(from)
				continue
			}
		}
		switch {
		case x.err == nil:
		case lost:
			p.awaitReset(to)
		case errors.Is(x.err, io.EOF):
			_ = to.CloseWrite()
		default:
			abort(to)
		}
	}
}

// admit waits for a piece's delay and returns what of it may go on, and whether this direction loses.
func (p *Proxy) admit(l *link, way int, x piece) (data []byte, lost bool) {
	held := false
	for {
		p.mu.Lock()
		f, changed := p.faults[way], p.changed
		wait := f.Delay - time.Since(x.at)
		if wait <= 0 || p.closed {
			data, lost = p.cut(l, way, f, x.data)
			p.lost[way] += int64(len(x.data) - len(data))
			if held || f.Delay > 0 {
				p.harm.Delayed += int64(len(x.data))
			}
			p.mu.Unlock()
			return data, lost
		}
		p.mu.Unlock()
		held = true
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		}
		timer.Stop()
	}
}

// cut drops what a fault drops. The caller holds p.mu.
func (p *Proxy) cut(l *link, way int, f Fault, data []byte) ([]byte, bool) {
	if f.Drop && !l.lost[way] {
		keep := min(max(f.After-l.passed[way], 0), int64(len(data)))
		l.passed[way] += keep
		l.lost[way] = keep < int64(len(data)) || f.After == 0
		return data[:keep], l.lost[way]
	}
	if l.lost[way] {
		return nil, true
	}
	return data, false
}

// awaitReset keeps a connection open whose other side has ended unheard, until Heal.
func (p *Proxy) awaitReset(c *net.TCPConn) {
	p.mu.Lock()
	heals := p.heals
	p.mu.Unlock()
	for {
		p.mu.Lock()
		over, changed := p.closed || p.heals > heals, p.changed
		p.mu.Unlock()
		if over {
			abort(c)
			return
		}
		<-changed
	}
}
