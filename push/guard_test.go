package push_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/push"
)

// names is a server of DNS that knows one address for every name.
func names(t *testing.T, addr string) *net.Resolver {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() {
		must(t, c.Close())
		<-ended
	})
	to := netip.MustParseAddr(addr)
	kind := uint16(1)
	if to.Is6() {
		kind = 28
	}
	go func() { // joined by the cleanup
		defer close(ended)
		b := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			end := 12
			for end < n && b[end] != 0 {
				end += 1 + int(b[end])
			}
			end += 5
			if end > n {
				continue
			}
			answer := append([]byte{b[0], b[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, b[12:end]...)
			if binary.BigEndian.Uint16(b[end-4:]) == kind {
				answer[7] = 1
				answer = binary.BigEndian.AppendUint16(append(answer, 0xc0, 12), kind)
				answer = append(answer, 0, 1, 0, 0, 0, 60, 0, byte(to.BitLen()/8))
				answer = append(answer, to.AsSlice()...)
			}
			_, _ = c.WriteTo(answer, from) // who asked asks again
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: loopbackDialer(c.LocalAddr().String())}
}

func TestANameThatLeadsToAnAddressOfThisHostOrNetworkIsRefused(t *testing.T) {
	t.Parallel()
	for addr, is := range map[string]string{
		"127.0.0.1": "loopback", "10.1.2.3": "private", "169.254.169.254": "metadata", "::1": "loopback", "fd00:ec2::254": "metadata",
		"64:ff9b::7f00:1": "NAT64", "2002:7f00:1::": "6to4",
	} {
		e := open(t, "http://inner.example.com/", func(c *push.Config) { c.AllowNet, c.Resolver = nil, names(t, addr) })
		err := e.Deliver(t.Context(), record())
		if !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), addr+" is") || !strings.Contains(err.Error(), is) || dispatch.IsPermanent(err) {
			t.Errorf("a name with the address %s: %v; expected a refusal that says %q", addr, err, is)
		}
	}
}

func TestANameThatLeadsToThisHostReachesNothing(t *testing.T) {
	t.Parallel()
	at := receiver(t, func(http.ResponseWriter, *http.Request) { t.Error("it was reached") })
	_, port, err := net.SplitHostPort(strings.TrimPrefix(at, "http://"))
	must(t, err)
	e := open(t, "http://inner.example.com:"+port, func(c *push.Config) { c.AllowNet, c.Resolver = nil, names(t, "127.0.0.1") })
	if err := e.Deliver(t.Context(), record()); err == nil {
		t.Error("it was delivered")
	}
}

func TestANameThatLeadsToAnAllowedAddressIsDialed(t *testing.T) {
	t.Parallel()
	at := receiver(t, takesAll)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(at, "http://"))
	must(t, err)
	e := open(t, "http://inner.example.com:"+port, func(c *push.Config) { c.Resolver = names(t, "127.0.0.1") })
	must(t, e.Deliver(t.Context(), record()))
}

func TestANetworkIsReadOrRefused(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{"10.1.2.3/8": "10.0.0.0/8", "127.0.0.1": "127.0.0.1/32", "::1": "::1/128", "fd00::1/8": "fd00::/8", "0.0.0.0/0": "0.0.0.0/0"} {
		if p, err := push.ParseNet(s); err != nil || p.String() != want {
			t.Errorf("%s: %s, %v; expected %s", s, p, err, want)
		}
	}
	for _, s := range []string{"", "localhost", "10.0.0.0/33", "10.0.0", "::ffff:10.0.0.0/104", "fe80::1%eth0"} {
		if _, err := push.ParseNet(s); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// takesAll takes everything.
func takesAll(http.ResponseWriter, *http.Request) {}

// loopbackDialer asks the server at an address, whichever one is meant.
func loopbackDialer(address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}
