package admin

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/ring"
)

// Rings gives orders about rings. They need a registry and no log.
type Rings struct{ reg *registry.Registry }

// NewRings returns the orders about the rings of a registry.
func NewRings(reg *registry.Registry) *Rings { return &Rings{reg} }

// ringSamples is how many made-up keys tell the shares of the members of an anchor ring.
const ringSamples = 10000

// ListRings lists the rings, sorted by name. A ring that can't be read says so in Damaged.
func (c *Rings) ListRings(ctx context.Context) ([]api.Ring, error) {
	names, err := ring.List(ctx, c.reg)
	if err != nil {
		return nil, err
	}
	all := make([]api.Ring, 0, len(names))
	for _, name := range names {
		switch r, err := c.DescribeRing(ctx, name); {
		case err == nil:
			all = append(all, *r)
		case errors.Is(err, fault.Corrupt), errors.Is(err, fault.Invalid):
			all = append(all, api.Ring{Ring: name, Members: []api.RingMember{}, Damaged: err.Error()})
		case !errors.Is(err, ring.ErrNotFound): // deleted since it was listed
			return nil, err
		}
	}
	return all, nil
}

// DescribeRing describes a ring: its members, and how the keys are shared.
func (c *Rings) DescribeRing(ctx context.Context, name string) (*api.Ring, error) {
	v, err := ring.Look(ctx, c.reg, name)
	if err != nil {
		return nil, err
	}
	return RingOf(v), nil
}

// RingOf describes a ring as one of its members sees it.
func RingOf(v *ring.View) *api.Ring {
	d := &api.Ring{Ring: v.Ring, Mode: string(v.Mode), Slots: v.Slots, Epoch: v.Epoch, Reason: v.Reason, Members: []api.RingMember{}}
	shares := v.Shares(ringSamples)
	for _, m := range v.Members {
		d.Members = append(d.Members, api.RingMember{
			ID: m.ID, Share: shares[m.ID], Incarnation: m.Incarnation, Host: m.Host, PID: m.PID, Joined: api.TimeOf(time.UnixMilli(m.Joined)),
		})
	}
	return d
}

// FindRingOwner says which member of a ring has a key.
func (c *Rings) FindRingOwner(ctx context.Context, name, key string) (*api.RingOwner, error) {
	v, err := ring.Look(ctx, c.reg, name)
	if err != nil {
		return nil, err
	}
	return RingOwnerOf(v, key), nil
}

// RingOwnerOf says which member has a key, as a member of the ring sees it.
func RingOwnerOf(v *ring.View, key string) *api.RingOwner {
	o := &api.RingOwner{Key: key}
	o.Owner, o.Epoch = v.Owner(key)
	if n := v.Slot(key); n >= 0 {
		o.Slot = &n
	}
	return o
}

// DeleteRing removes a ring with its history. ErrConflict while it has members.
func (c *Rings) DeleteRing(ctx context.Context, name string) error {
	return ring.Delete(ctx, c.reg, name)
}
