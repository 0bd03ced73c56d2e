package etcdregistry

import (
	"net"
	"testing"
	"time"
)

// A renewal tries for a third of the TTL, and the next one needs a connection that works.
func TestCullClosesASilentConnectionWithinTheShortestLease(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := newConns()
	c, err := w.dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	old := time.Now().Add(-minTTL)
	c.(*conn).heard.Store(&old)
	w.cull(time.Now().Add(-minTTL / 3))
	if len(w.all) > 0 {
		t.Errorf("a connection that was silent for the try of a renewal, %s, is still used", minTTL/3)
	}
}
