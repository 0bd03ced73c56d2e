package kv

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
)

// Namespace confines d to the keys of one namespace. Its name ends with a NUL, which no key contains, so no
// namespace reaches into another.
func Namespace(d driver.Registry, name string) (driver.Registry, error) {
	if err := CheckNamespace(name); err != nil {
		return nil, err
	}
	n := &namespace{d: d, prefix: name + "\x00"}
	if tx, ok := d.(driver.Transactional); ok {
		return &txNamespace{namespace: n, tx: tx}, nil
	}
	return n, nil
}

// CheckNamespace says whether name can be one.
func CheckNamespace(name string) error {
	if len(name) > 128 || strings.ContainsRune(name, 0) {
		return fmt.Errorf("namespace %.20q (%d bytes): expected at most 128 bytes without NUL: %w", name, len(name), driver.ErrInvalid)
	}
	return nil
}

// After is the first key behind all that start with prefix; nil when there is none.
func After(prefix string) []byte {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return b[:i+1]
		}
	}
	return nil
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
		in := driver.Txn{Quiet: t.Quiet, Checks: slices.Clone(t.Checks), Puts: slices.Clone(t.Puts), Deletes: slices.Clone(t.Deletes)}
		for j := range in.Checks {
			in.Checks[j].Key = n.prefix + in.Checks[j].Key
		}
		for j := range in.Puts {
			in.Puts[j].Key = n.prefix + in.Puts[j].Key
		}
		for j := range in.Deletes {
			in.Deletes[j] = n.prefix + in.Deletes[j]
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

// txNamespace is a namespace of a database that users have transactions in.
type txNamespace struct {
	*namespace
	tx driver.Transactional
}

// InTx implements driver.Transactional.
func (n *txNamespace) InTx(tx any) (driver.TxEntries, error) {
	inner, err := n.tx.InTx(tx)
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
