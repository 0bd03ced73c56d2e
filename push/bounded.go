package push

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// bounded limits the open connections of a dial. An endpoint with HTTP/2 may take no second request on
// any connection and end none, so that each delivery needs another one.
func bounded(by dial) dial {
	var open atomic.Int64
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if open.Add(1) > limits.EndpointConnections {
			open.Add(-1)
			return nil, fmt.Errorf("%d connections to the endpoint are open, and it takes no request of any: %w", limits.EndpointConnections, fault.Unavailable)
		}
		c, err := by(ctx, network, address)
		if err != nil {
			open.Add(-1)
			return nil, err
		}
		return &boundedConn{Conn: c, closed: sync.OnceFunc(func() { open.Add(-1) })}, nil
	}
}

type boundedConn struct {
	net.Conn

	closed func()
}

func (c *boundedConn) Close() error {
	defer c.closed()
	return c.Conn.Close() //nolint:wrapcheck // it stands for the connection
}
