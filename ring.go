package ringfence

import (
	"cmp"
	"context"
	"time"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/ring"
)

// RingMode says how the keys of a ring find their member; it is fixed for the life of a ring.
type RingMode = ring.Mode

// Ring modes.
const (
	RingAnchor = ring.Anchor // consistent hashing: fast, with a short overlap when members change
	RingTable  = ring.Table  // fenced slots: at any time at most one member has a key
)

// RingOptions are the options of JoinRing; the zero value of each field is its default.
type RingOptions struct {
	Member      string        // ID in the ring; default host-pid-random. The newest start of an ID fences the others.
	Incarnation string        // of this start, unique for ever; default random
	Mode        RingMode      // default: what the ring has, RingAnchor when it is new
	Slots       int           // of a RingTable ring; default: what the ring has, 256 when it is new
	TTL         time.Duration // a member that is not heard of for so long is dead; default 5 s, on etcd 2 s
	Drain       time.Duration // see ring.Config; default 100 ms, negative: none
	Events      ring.Events   // tell of changes. They must not block.
}

// JoinRing makes this process a member of a ring: the members share all keys among them, each of
// them asks ShouldHandle whether a key is its own, and no records are involved. The caller closes
// the ring, before the client. opts may be nil.
//
// Errors: ErrInvalid with every fault; ErrExists when the ring has another mode or number of
// slots; what the store says otherwise.
func (c *Client) JoinRing(ctx context.Context, name string, opts *RingOptions) (*ring.Ring, error) {
	o := orDefault(opts)
	return ring.Join(ctx, ring.Config{
		Registry: c.reg, Name: name, Member: cmp.Or(o.Member, group.NewMember()), Incarnation: o.Incarnation,
		Mode: o.Mode, Slots: o.Slots, TTL: o.TTL, Drain: o.Drain, Events: o.Events, Logger: c.logger,
	})
}

// OpenRegistry opens only the coordination store that c names, for programs that use a ring and
// no records. The caller closes it. Errors are those of Open.
func OpenRegistry(ctx context.Context, c Config) (*registry.Registry, error) {
	c.Log = ""
	if c.Registry == "mem:" {
		c.Log = "mem:"
	}
	s, err := c.stores()
	if err != nil {
		return nil, err
	}
	return s.OpenRegistry(ctx)
}
