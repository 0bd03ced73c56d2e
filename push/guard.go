package push

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"

	"github.com/ringfence/ringfence/internal/fault"
)

// special are the addresses that are no host of the public internet: IANA's registries of special-purpose
// IPv4 and IPv6 addresses (RFC 6890 and its updates), multicast, and further ones that clouds use. Those
// that carry an IPv4 address are here too: a translator reaches any IPv4 address through them. check refuses the
// rest of IPv6 outside of 2000::/3; what is here has a word of its own.
var special = []struct {
	net netip.Prefix
	is  string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("169.254.170.0/24"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("100.100.100.200/32"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("192.0.0.192/32"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("168.63.129.16/32"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "the metadata service of a cloud"},

	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared address space"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "for protocols"},
	{netip.MustParsePrefix("192.0.2.0/24"), "for documentation"},
	{netip.MustParsePrefix("192.31.196.0/24"), "for AS112"},
	{netip.MustParsePrefix("192.52.193.0/24"), "for AMT"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a 6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("192.175.48.0/24"), "for AS112"},
	{netip.MustParsePrefix("198.18.0.0/15"), "for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},

	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("64:ff9b::/96"), "NAT64"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "NAT64"},
	{netip.MustParsePrefix("2001::/23"), "for protocols"},
	{netip.MustParsePrefix("2001:db8::/32"), "for documentation"},
	{netip.MustParsePrefix("2002::/16"), "6to4"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "for AS112"},
	{netip.MustParsePrefix("3fff::/20"), "for documentation"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
}

// ParseNet reads a network that endpoints may be in: a CIDR, or one address. Else it is fault.Invalid.
func ParseNet(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		var a netip.Addr
		a, err = netip.ParseAddr(s)
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if err != nil || strings.Contains(s, "%") {
		return p, fmt.Errorf("%q is no network; expected one such as 10.1.0.0/16 or fd00::/8: %w", s, fault.Invalid)
	}
	if p.Addr().Is4In6() {
		return p, fmt.Errorf("%q is a network of IPv4 in IPv6; expected it as IPv4: %w", s, fault.Invalid)
	}
	return p.Masked(), nil
}

// guard decides which addresses may be dialed.
type guard struct {
	allowed []netip.Prefix
	own     func() ([]net.Addr, error) // the addresses of this host, as they are at the moment
}

func newGuard(allowed []netip.Prefix) guard {
	return guard{allowed: allowed, own: net.InterfaceAddrs}
}

// check is nil for an address that may be dialed. An IPv4 address in IPv6 is judged as IPv4. A public
// address of an interface of this host leads to its listeners, as loopback does.
func (g guard) check(addr netip.Addr) error {
	addr = addr.WithZone("").Unmap()
	for _, allowed := range g.allowed {
		if allowed.Contains(addr) {
			return nil
		}
	}
	for _, s := range special {
		if s.net.Contains(addr) {
			return refusedAddress(addr, s.is)
		}
	}
	if addr.Is6() && addr.As16()[0]>>5 != 1 { // all addresses that are given out for hosts are in 2000::/3
		return refusedAddress(addr, "not public")
	}
	own, err := g.own()
	if err != nil {
		return fmt.Errorf("the address %s may be this host's: its own ones can't be told, and nothing is sent there unless --allow-net has it: %w", addr, err)
	}
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().WithZone("").Unmap() == addr {
			return refusedAddress(addr, "this host's own")
		}
	}
	return nil
}

func refusedAddress(addr netip.Addr, is string) error {
	return fmt.Errorf("the address %s is %s, and nothing is sent there unless --allow-net has it: %w", addr, is, fault.Invalid)
}

// NeedsAllowNet says why nothing is sent to the address in a URL without AllowNet; nil: it is a public one, or a name.
func NeedsAllowNet(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil //nolint:nilerr // a definition has no such URL
	}
	return newGuard(nil).obvious(u)
}

// control checks the address that is about to be dialed, after all names were resolved.
func (g guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address to dial: %w", address, fault.Invalid)
	}
	return g.check(to.Addr())
}

// obvious refuses a URL whose host is a refused address, before anything is delivered.
func (g guard) obvious(u *url.URL) error {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		if g.check(netip.IPv6Loopback()) == nil {
			return nil
		}
		host = "127.0.0.1"
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.check(addr)
	}
	return nil // a name: its address is still unknown
}
