package etcdregistry

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/stats"
)

// wires are the connections of a client. gRPC sends a ping every ten seconds at most, so it takes
// it long to notice one that swallows everything, and until then it uses it. A request that was
// not answered in time, while no byte came, is the better evidence.
type wires struct {
	dialer net.Dialer
	mu     sync.Mutex
	all    map[*wire]struct{}
}

type wire struct {
	net.Conn
	w     *wires
	heard atomic.Pointer[time.Time]
}

// minSilence is what a connection may be silent without being given up, however short the time
// of a request is. It is less than the try of a renewal takes in the shortest lease, two thirds of
// a second, or such a session would end with its connection.
const minSilence = 500 * time.Millisecond

func newWires() *wires {
	return &wires{
		all:    make(map[*wire]struct{}),
		dialer: net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 3}},
	}
}

func (w *wires) dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := w.dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	x := &wire{Conn: c, w: w}
	now := time.Now()
	x.heard.Store(&now)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all[x] = struct{}{}
	return x, nil
}

// cull closes the connections that nothing came from since a request began that timed out now.
func (w *wires) cull(since time.Time) {
	if time.Since(since) < minSilence {
		return
	}
	var silent []*wire
	w.mu.Lock()
	for x := range w.all {
		if x.heard.Load().Before(since) {
			silent = append(silent, x)
		}
	}
	w.mu.Unlock()
	for _, x := range silent {
		_ = x.Close()
	}
}

func (x *wire) Read(b []byte) (int, error) {
	n, err := x.Conn.Read(b)
	if n > 0 {
		now := time.Now()
		x.heard.Store(&now)
	}
	return n, err
}

func (x *wire) Close() error {
	x.w.mu.Lock()
	delete(x.w.all, x)
	x.w.mu.Unlock()
	return x.Conn.Close()
}

// connecting is how a lost connection is made again. gRPC waits for up to two minutes between two
// tries by default; a server that comes back must not be left alone for so long.
var connecting = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: 3 * time.Second,
}

// failFast makes a request fail with the reason when no node can be reached. etcd's client makes
// it wait, and then says no more than that the time is over.
func failFast(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, request, reply, cc, append(opts[:len(opts):len(opts)], grpc.WaitForReady(false))...)
}

// sentMark, in a context, says whether the request of that context was given to a connection.
type sentMark struct{}

// marked is ctx with a mark.
func marked(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return context.WithValue(ctx, sentMark{}, sent), sent
}

// sentHandler sets the marks. gRPC calls it when it writes the head of a request to a connection,
// before it writes the rest.
type sentHandler struct{}

func (sentHandler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutHeader); !ok {
		return
	}
	if sent, ok := ctx.Value(sentMark{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
}

func (sentHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (sentHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sentHandler) HandleConn(context.Context, stats.ConnStats)                       {}
