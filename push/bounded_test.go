package push

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// An endpoint that takes one request of each connection, and ends none, has no more of them than that.
func TestAnEndpointHasNoMoreConnectionsThanTheLimitSays(t *testing.T) {
	t.Parallel()
	fails := false
	dial := bounded(func(context.Context, string, string) (net.Conn, error) {
		if fails {
			return nil, fault.Unavailable
		}
		here, there := net.Pipe()
		t.Cleanup(func() { _ = there.Close() })
		return here, nil
	})
	open := func() (net.Conn, error) { return dial(t.Context(), "tcp", "endpoint:443") }
	var last net.Conn
	for i := range limits.EndpointConnections {
		fails = true
		if _, err := open(); err == nil {
			t.Fatal("a dial that failed has a connection")
		}
		fails = false
		c, err := open()
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		last = c
	}
	if _, err := open(); !errors.Is(err, fault.Unavailable) {
		t.Errorf("one more: %v; expected that there are too many", err)
	}
	_, _ = last.Close(), last.Close() // once counts
	if _, err := open(); err != nil {
		t.Errorf("in the place of one that was closed: %v", err)
	}
	if _, err := open(); !errors.Is(err, fault.Unavailable) {
		t.Errorf("one more: %v; expected that there are too many", err)
	}
}

func TestATransportBoundsItsConnections(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tr, err := transport(&Config{}, newGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}), "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := tr.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, ok := c.(*boundedConn); !ok || tr.MaxConnsPerHost != limits.EndpointConnections/2 {
		t.Errorf("%T, %d by host; expected bounded ones", c, tr.MaxConnsPerHost)
	}
}
