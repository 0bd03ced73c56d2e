package ring

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// prefixed is the part of a registry below a prefix, as a registry of its own: so the slots of a
// ring can't be taken for a consumer group of the user. Its registry has another owner: closing it
// does nothing.
type prefixed struct {
	reg    *registry.Registry
	prefix string
	open   func(context.Context) (registry.Session, error) // opens the sessions
	enters func(key string) []registry.Check               // further checks when a key is made
}

func (b *prefixed) List(ctx context.Context, prefix string) (driver.Snapshot, error) {
	snap, err := b.reg.List(ctx, b.prefix+prefix)
	for i := range snap.Entries {
		snap.Entries[i].Key = snap.Entries[i].Key[len(b.prefix):]
	}
	return snap, err
}

func (b *prefixed) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	inner := make([]driver.Txn, len(txns))
	for i, t := range txns {
		in := driver.Txn{Quiet: t.Quiet}
		var more []driver.Check
		for _, c := range t.Checks {
			if c.Version == "" && b.enters != nil {
				more = append(more, b.enters(c.Key)...)
			}
			c.Key = b.prefix + c.Key
			in.Checks = append(in.Checks, c)
		}
		in.Checks = append(in.Checks, more...) // behind the others, whose numbers mean something
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

func (b *prefixed) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	return b.reg.Watch(ctx, b.prefix+prefix)
}

func (b *prefixed) OpenSession(ctx context.Context, _ time.Duration) (driver.Session, error) {
	return b.open(ctx)
}

func (b *prefixed) Close() error { return nil }
