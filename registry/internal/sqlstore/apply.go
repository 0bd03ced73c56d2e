package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

// A call has many transactions, each of which succeeds or fails by itself. For speed it is one transaction of
// the database, which is carried out in memory. It reads and locks all named keys at once, sessions first, in
// the same order in every process. Then it applies the transactions one after another to the copy in memory
// (judge), and writes the difference (flush). The locks last until the commit, so the copy is what is stored. A
// call that is repeated after a deadlock begins anew.
//
// The price: all transactions wait for the lock of one. A stopped process may keep a lock for long. Then the
// call is divided into halves, again and again, until only the transactions with a locked key fail (divide).

// Apply implements driver.Registry.
func (s *Store) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	ctx, done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	db := s.cfg.DB
	if deadline, ok := ctx.Deadline(); ok && len(txns) > 1 && time.Until(deadline) < enough {
		db = s.cfg.NoWait
	}
	return s.apply(ctx, db, txns, func(err error) bool {
		f := s.d.Fate(err)
		return f == Again || f == Held && len(txns) == 1
	})
}

const (
	enough = 1500 * time.Millisecond // time left; with less a call waits for no lock, as the free keys need time too
	brief  = 20 * time.Millisecond   // the wait for a lock then
)

// apply is one transaction of the database, which is repeated while again agrees.
func (s *Store) apply(ctx context.Context, db *sql.DB, txns []driver.Txn, again func(error) bool) ([]driver.Result, error) {
	var b *batch
	err := s.transactWhile(ctx, db, "apply", again, func(ctx context.Context, q Querier) (bool, error) {
		b = &batch{s: s, q: q, keys: make(map[string]row), alive: make(map[string]bool), writes: make(map[string]*write)}
		return b.run(ctx, txns)
	})
	switch {
	case err == nil:
		s.changed(b.loudKeys())
		return b.results, nil
	case errors.Is(err, fault.Unknown):
		s.changed(b.loudKeys()) // it may be applied
		results := make([]driver.Result, len(txns))
		for i := range results {
			if results[i].Err = err; b.results[i].Err != nil {
				results[i] = b.results[i] // refused in any case
			}
		}
		return results, nil
	case len(txns) > 1 && s.d.Fate(err) == Held:
		return s.divide(ctx, txns), nil
	}
	return nil, err
}

// divide applies transactions half by half: one of them has a locked key, and the others must not wait for it.
func (s *Store) divide(ctx context.Context, txns []driver.Txn) []driver.Result {
	all := make([]driver.Result, 0, len(txns))
	half := len(txns) / 2
	for _, part := range [][]driver.Txn{txns[:half], txns[half:]} {
		start := time.Now()
		results, err := s.apply(ctx, s.cfg.NoWait, part, func(err error) bool {
			f := s.d.Fate(err)
			return f == Again || f == Held && len(part) == 1 && time.Since(start) < brief
		})
		if err != nil {
			results = slices.Repeat([]driver.Result{{Err: err}}, len(part))
		}
		all = append(all, results...)
	}
	return all
}

// batch is one try to apply the transactions of a call.
type batch struct {
	s       *Store
	q       Querier
	keys    map[string]row    // every key that is touched, as the transactions so far left it
	alive   map[string]bool   // the sessions that puts name
	writes  map[string]*write // what is to be written in the end
	loud    map[string]bool
	results []driver.Result
}

// row is what a check looks at. The zero row is an absent key.
type row struct {
	version driver.Version
	session string
}

type write struct {
	put     *driver.Put // nil: delete
	version driver.Version
	existed bool
}

func (b *batch) run(ctx context.Context, txns []driver.Txn) (bool, error) {
	for i := range txns {
		t := &txns[i]
		for _, c := range t.Checks {
			b.keys[c.Key] = row{}
		}
		for j := range t.Puts {
			b.keys[t.Puts[j].Key] = row{}
			if id := t.Puts[j].Session; id != "" {
				b.alive[id] = false
			}
		}
		for _, k := range t.Deletes {
			b.keys[k] = row{}
		}
	}
	if err := b.lockSessions(ctx); err != nil {
		return false, err
	}
	if err := b.lockKeys(ctx); err != nil {
		return false, err
	}
	existed := make(map[string]bool, len(b.keys))
	for k, r := range b.keys {
		existed[k] = r.version != ""
	}
	b.results = make([]driver.Result, len(txns))
	b.loud = make(map[string]bool)
	for i := range txns {
		b.results[i] = b.judge(&txns[i])
	}
	for k, w := range b.writes {
		w.existed = existed[k]
		if w.put == nil && !w.existed {
			delete(b.writes, k) // it came and went within the call
		}
	}
	if len(b.writes) == 0 {
		return false, nil
	}
	if err := b.flush(ctx); err != nil {
		return false, err
	}
	return true, b.s.publish(ctx, b.q, b.loudKeys())
}

// judge applies one transaction to what is in memory, or refuses it.
func (b *batch) judge(t *driver.Txn) driver.Result {
	for i, c := range t.Checks {
		if have := b.keys[c.Key].version; have != c.Version {
			return driver.Result{Failed: i, Err: fmt.Errorf("key %q has version %q, expected %q: %w", c.Key, have, c.Version, fault.Conflict)}
		}
	}
	for i := range t.Puts {
		if p := &t.Puts[i]; p.Session != "" && !b.alive[p.Session] {
			return driver.Result{Err: fmt.Errorf("put of key %q: session %q has ended; open a new one: %w", p.Key, p.Session, fault.Fenced)}
		}
	}
	var res driver.Result
	for i := range t.Puts {
		p := &t.Puts[i]
		v := b.s.version()
		b.keys[p.Key] = row{version: v, session: p.Session}
		b.writes[p.Key] = &write{put: p, version: v}
		res.Versions = append(res.Versions, v)
		if !t.Quiet {
			b.loud[p.Key] = true
		}
	}
	for _, k := range t.Deletes {
		if b.keys[k].version == "" {
			continue
		}
		b.keys[k] = row{}
		b.writes[k] = &write{}
		if !t.Quiet {
			b.loud[k] = true
		}
	}
	return res
}

func (b *batch) loudKeys() []string { return slices.Sorted(maps.Keys(b.loud)) }

// changed signals the watches of this process at once, and those of others by the ringer.
func (s *Store) changed(keys []string) {
	if len(keys) == 0 {
		return
	}
	s.watches.Changed(keys...)
	poke(s.ring)
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // one is pending
	}
}
