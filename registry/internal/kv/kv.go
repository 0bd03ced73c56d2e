// Package kv is the ordered map of versioned entries of registries that keep their state in memory. It checks
// transactions, binds entries to sessions, and lists by prefix. It has no lock: its owner serialises access.
package kv

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/ringfence/ringfence/registry/driver"
)

// Map holds the entries and the live sessions.
type Map struct {
	entries map[string]driver.Entry
	keys    []string                       // sorted
	bound   map[string]map[string]struct{} // live session → its keys
}

// New returns an empty map.
func New() *Map {
	return &Map{entries: make(map[string]driver.Entry), bound: make(map[string]map[string]struct{})}
}

// Grow makes room for n entries in an empty map.
func (m *Map) Grow(n int) {
	if len(m.entries) == 0 {
		m.entries = make(map[string]driver.Entry, n)
		m.keys = make([]string, 0, n)
	}
}

// Len is the number of entries.
func (m *Map) Len() int { return len(m.keys) }

// Get returns the entry of key; its Value must not be changed.
func (m *Map) Get(key string) (driver.Entry, bool) {
	e, ok := m.entries[key]
	return e, ok
}

// Refuse is nil if t can be applied now, ErrConflict with the index of the first failed check, or ErrFenced if
// the session of a put has ended.
func (m *Map) Refuse(t *driver.Txn) (failed int, err error) {
	for i, c := range t.Checks {
		if have := m.entries[c.Key].Version; have != c.Version {
			return i, fmt.Errorf("key %q has version %q, expected %q: %w", c.Key, have, c.Version, driver.ErrConflict)
		}
	}
	for i := range t.Puts {
		p := &t.Puts[i]
		if p.Session != "" && !m.Alive(p.Session) {
			return 0, fmt.Errorf("put of key %q: session %q has ended; open a new one: %w", p.Key, p.Session, driver.ErrFenced)
		}
	}
	return 0, nil
}

// Put stores e in place of the entry of its key. The caller hands over e.Value.
func (m *Map) Put(e driver.Entry) {
	old, had := m.entries[e.Key]
	if !had {
		m.insertKey(e.Key)
	} else if old.Session != e.Session {
		delete(m.bound[old.Session], old.Key)
	}
	m.entries[e.Key] = e
	if keys, ok := m.bound[e.Session]; ok {
		keys[e.Key] = struct{}{}
	}
}

// Delete removes key, and reports whether it was there.
func (m *Map) Delete(key string) bool {
	e, ok := m.entries[key]
	if !ok {
		return false
	}
	delete(m.bound[e.Session], key)
	delete(m.entries, key)
	i := sort.SearchStrings(m.keys, key)
	m.keys = slices.Delete(m.keys, i, i+1)
	return true
}

func (m *Map) insertKey(key string) {
	if n := len(m.keys); n == 0 || m.keys[n-1] < key { // loading a sorted list
		m.keys = append(m.keys, key)
		return
	}
	m.keys = slices.Insert(m.keys, sort.SearchStrings(m.keys, key), key)
}

// List returns the entries below prefix, sorted, with values of their own.
func (m *Map) List(prefix string) []driver.Entry {
	from := sort.SearchStrings(m.keys, prefix)
	to := from
	size := 0
	for to < len(m.keys) && strings.HasPrefix(m.keys[to], prefix) {
		size += len(m.entries[m.keys[to]].Value)
		to++
	}
	if from == to {
		return nil
	}
	out := make([]driver.Entry, 0, to-from)
	values := make([]byte, 0, size) // one allocation for all
	for _, k := range m.keys[from:to] {
		e := m.entries[k]
		at := len(values)
		values = append(values, e.Value...)
		e.Value = values[at:len(values):len(values)]
		out = append(out, e)
	}
	return out
}

// All goes through the entries in the order of their keys; their values must not be changed.
func (m *Map) All() iter.Seq[driver.Entry] {
	return func(yield func(driver.Entry) bool) {
		for _, k := range m.keys {
			if !yield(m.entries[k]) {
				return
			}
		}
	}
}

// AddSession makes a session live.
func (m *Map) AddSession(id string) {
	if m.bound[id] == nil {
		m.bound[id] = make(map[string]struct{})
	}
}

// Alive reports whether a session is live.
func (m *Map) Alive(id string) bool { return m.bound[id] != nil }

// EndSession ends a session, removes its entries and returns their keys, sorted.
func (m *Map) EndSession(id string) []string {
	keys := slices.Sorted(maps.Keys(m.bound[id]))
	delete(m.bound, id)
	for _, k := range keys {
		m.Delete(k)
	}
	return keys
}
