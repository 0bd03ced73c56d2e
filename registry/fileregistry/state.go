package fileregistry

import (
	"maps"
	"slices"

	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
)

// state is the store's content as one process has it in memory.
type state struct {
	m        *kv.Map
	sessions map[string]sessionInfo
}

func newState() *state {
	return &state{m: kv.New(), sessions: make(map[string]sessionInfo)}
}

// change collects what applied ops changed, for watches and waiting calls.
type change struct {
	keys     []string // written loudly
	sessions bool
	all      bool // anything may have changed
}

func (c *change) any() bool { return len(c.keys) > 0 || c.sessions || c.all }

// apply applies an op; version is what a put gives its entry.
func (s *state) apply(o *op, version driver.Version, ch *change) {
	switch o.kind {
	case opPut, opEntry:
		s.m.Put(driver.Entry{Key: o.key, Value: o.value, Version: version, Session: o.session})
	case opDelete:
		s.m.Delete(o.key)
	case opOpen:
		s.m.AddSession(o.info.id)
		s.sessions[o.info.id] = o.info
		ch.sessions = true
		return
	case opEnd:
		delete(s.sessions, o.key)
		ch.keys = append(ch.keys, s.m.EndSession(o.key)...)
		ch.sessions = true
		return
	}
	if !o.quiet {
		ch.keys = append(ch.keys, o.key)
	}
}

// encode is the state as the ops of a snapshot: sessions first, so that entries find theirs.
func (s *state) encode() []byte {
	var b []byte
	for _, id := range slices.Sorted(maps.Keys(s.sessions)) {
		b = appendOp(b, &op{kind: opOpen, key: id, info: s.sessions[id]})
	}
	for e := range s.m.All() {
		b = appendOp(b, &op{kind: opEntry, key: e.Key, session: e.Session, value: e.Value, version: e.Version})
	}
	return b
}

// decodeState reads a snapshot; about hint entries are expected in the end.
func decodeState(b []byte, hint int) (*state, error) {
	s := newState()
	s.m.Grow(hint)
	var ignored change
	for len(b) > 0 {
		o, rest, err := nextOp(b)
		if err != nil {
			return nil, err
		}
		s.apply(&o, o.version, &ignored)
		ignored.keys = ignored.keys[:0]
		b = rest
	}
	return s, nil
}

// freeSlot is a heartbeat word that no session uses, or -1.
func (s *state) freeSlot() int {
	var used [slotCount]bool
	for _, i := range s.sessions {
		used[i.slot] = true
	}
	for i := range slotCount {
		if !used[i] {
			return i
		}
	}
	return -1
}
