package etcdregistry

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/ringfence/ringfence/internal/storeurl"
)

// conns are the connections of a client. gRPC pings at most every ten seconds, so it uses a half-open
// connection for a long time. A request that timed out while no byte came is better evidence.
type conns struct {
	dialer net.Dialer
	mu     sync.Mutex
	all    map[*conn]struct{}
}

type conn struct {
	net.Conn
	w     *conns
	heard atomic.Pointer[time.Time]
}

// minSilence is the least silence that ends a connection, however short the time-out of a request is.
// It is below the time-out of a renewal in the shortest lease, two thirds of a second. Otherwise a
// half-open connection would cost such a session its lease.
const minSilence = 500 * time.Millisecond

func newConns() *conns {
	return &conns{
		all:    make(map[*conn]struct{}),
		dialer: net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 3}},
	}
}

func (w *conns) dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := w.dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	x := &conn{Conn: c, w: w}
	now := time.Now()
	x.heard.Store(&now)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all[x] = struct{}{}
	return x, nil
}

// cull closes the connections that have been silent since a request began, which has timed out now.
func (w *conns) cull(since time.Time) {
	if time.Since(since) < minSilence {
		return
	}
	var silent []*conn
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

func (x *conn) Read(b []byte) (int, error) {
	n, err := x.Conn.Read(b)
	if n > 0 {
		now := time.Now()
		x.heard.Store(&now)
	}
	return n, err
}

func (x *conn) Close() error {
	x.w.mu.Lock()
	delete(x.w.all, x)
	x.w.mu.Unlock()
	return x.Conn.Close()
}

// connecting is how a lost connection is made again. gRPC's default pause between two tries grows to
// two minutes, which is too long after a short outage.
var connecting = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: 3 * time.Second,
}

// failFast makes a request fail with its reason if no node can be reached. etcd's client would wait,
// and then report only that the time is over.
func failFast(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, request, reply, cc, append(opts[:len(opts):len(opts)], grpc.WaitForReady(false))...)
}

// sentMark is the key, in a context, of a flag: the request was given to a connection.
type sentMark struct{}

// marked is ctx with such a flag.
func marked(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return context.WithValue(ctx, sentMark{}, sent), sent
}

// sentHandler sets the flags. gRPC calls it when it writes the head of a request to a connection.
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

// freshPassword puts what a file has at this moment into each login. etcd's client logs in when it
// begins and again when its token is over, always with the password that it was made with.
func freshPassword(path string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if login, ok := req.(*etcdserverpb.AuthenticateRequest); ok {
			password, err := storeurl.ReadPassword(path)
			if err != nil {
				return status.Error(codes.Unavailable, err.Error())
			}
			req = &etcdserverpb.AuthenticateRequest{Name: login.Name, Password: password}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}
