package kv

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
)

// Namespace confines d to the keys of one namespace. A NUL, which no key contains, ends its
// name, so that none can reach into another.
func Namespace(d driver.Registry, name string) (driver.Registry, error) {
	if len(name) > 128 || strings.ContainsRune(name, 0) {
		return nil, fmt.Errorf("namespace %.20q (%d bytes): expected at most 128 bytes without NUL: %w", name, len(name), driver.ErrInvalid)
	}
	return &namespace{d: d, prefix: name + "\x00"}, nil
}

type namespace struct {
	d      driver.Registry
	prefix string
}

func (n *namespace) List(ctx context.Context, prefix string) (driver.Snapshot, error) {
	snap, err := n.d.List(ctx, n.prefix+prefix)
	for i := range snap.Entries {
		snap.Entries[i].Key = snap.Entries[i].Key[len(n.prefix):]
	}
	return snap, err
}

func (n *namespace) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	inner := make([]driver.Txn, len(txns))
	for i, t := range txns {
		in := driver.Txn{Quiet: t.Quiet}
		for _, c := range t.Checks {
			c.Key = n.prefix + c.Key
			in.Checks = append(in.Checks, c)
		}
		for _, p := range t.Puts {
			p.Key = n.prefix + p.Key
			in.Puts = append(in.Puts, p)
		}
		for _, k := range t.Deletes {
			in.Deletes = append(in.Deletes, n.prefix+k)
		}
		inner[i] = in
	}
	return n.d.Apply(ctx, inner)
}

func (n *namespace) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	return n.d.Watch(ctx, n.prefix+prefix)
}

func (n *namespace) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	return n.d.OpenSession(ctx, ttl)
}

func (n *namespace) Close() error { return n.d.Close() }

// InTx implements driver.Transactional when the inner driver does.
func (n *namespace) InTx(tx any) (driver.TxEntries, error) {
	d, ok := n.d.(driver.Transactional)
	if !ok {
		return nil, fmt.Errorf("this registry lies in no database that the transaction could be of: %w", driver.ErrInvalid)
	}
	inner, err := d.InTx(tx)
	if err != nil {
		return nil, err
	}
	return &txEntries{inner: inner, prefix: n.prefix}, nil
}

// txEntries confines the entries of a transaction to a namespace.
type txEntries struct {
	inner  driver.TxEntries
	prefix string
}

func (t *txEntries) Lock(ctx context.Context, keys ...string) ([]driver.Entry, error) {
	full := make([]string, len(keys))
	for i, k := range keys {
		full[i] = t.prefix + k
	}
	entries, err := t.inner.Lock(ctx, full...)
	for i := range entries {
		entries[i].Key = entries[i].Key[len(t.prefix):]
	}
	return entries, err
}

func (t *txEntries) Put(ctx context.Context, key string, value []byte) (driver.Version, error) {
	return t.inner.Put(ctx, t.prefix+key, value)
}
