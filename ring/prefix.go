package ring

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// below is the part of a registry below a prefix, as a registry of its own: what keeps the slots
// of a ring from being taken for a consumer group of the user. It belongs to somebody else, so
// that closing it does nothing.
type below struct {
	reg    *registry.Registry
	prefix string
	opened func(registry.Session) // sees each session before anybody else
}

func (b *below) List(ctx context.Context, prefix string) (driver.Snapshot, error) {
	snap, err := b.reg.List(ctx, b.prefix+prefix)
	for i := range snap.Entries {
		snap.Entries[i].Key = snap.Entries[i].Key[len(b.prefix):]
	}
	return snap, err
}

func (b *below) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	inner := make([]driver.Txn, len(txns))
	for i, t := range txns {
		in := driver.Txn{Quiet: t.Quiet}
		for _, c := range t.Checks {
			c.Key = b.prefix + c.Key
			in.Checks = append(in.Checks, c)
		}
		for _, p := range t.Puts {
			p.Key = b.prefix + p.Key
			in.Puts = append(in.Puts, p)
		}
		for _, k := range t.Deletes {
			in.Deletes = append(in.Deletes, b.prefix+k)
		}
		inner[i] = in
	}
	return b.reg.Apply(ctx, inner)
}

func (b *below) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	return b.reg.Watch(ctx, b.prefix+prefix)
}

func (b *below) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := b.reg.OpenSession(ctx, ttl)
	if err == nil && b.opened != nil {
		b.opened(s)
	}
	return s, err
}

func (b *below) Close() error { return nil }
