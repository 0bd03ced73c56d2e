package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

// DefaultAddress is the usual address of a daemon.
const DefaultAddress = "127.0.0.1:7433"

// Listen listens at an address.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen at %s: another process has that port; expected a free one: %w", address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", address, err)
	}
	return l, nil
}

// IsLoopback says whether only this host reaches an address.
func IsLoopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("address %.80q: expected HOST:PORT: %w", address, fault.Invalid)
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback(), nil
}

// OwnerToken makes a token of an owner, for the user whose stores these are.
func (d *Daemon) OwnerToken(ctx context.Context) (*api.NewToken, error) {
	return d.tokens.Make(ctx, "local", api.NewTokenSpec{Name: "admin", Grants: []api.Grant{{Role: api.RoleOwner, Namespace: "*"}}}, time.Now())
}
