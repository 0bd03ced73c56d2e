package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/registry"
)

// store is a linearizable registry. It applies at once what arrives; the network decides how it
// arrives, and whether the answer gets back.
type store struct {
	w        *world
	down     bool
	count    int
	deleted  int // how often the group was
	nonce    int // of the replica that leads; versions carry it
	entries  map[string]entryDoc
	sessions map[string]*session
	before   *copied // the state that a lagging replica has

	meta, assignment, control string // keys
	owners, checkpoints       []string
	replaced                  map[registry.Version]time.Duration // versions of owner entries: when
	members, static           []string                           // keys, sorted
}

// entryDoc is an entry with its document decoded: a Load is then cheap, of which there are many.
type entryDoc struct {
	doc     any
	version registry.Version
	session string
}

type session struct {
	id    string
	node  *node
	until time.Duration
}

func newStore(w *world) *store {
	s := &store{w: w, entries: map[string]entryDoc{}, sessions: map[string]*session{}, replaced: map[registry.Version]time.Duration{}}
	s.meta, s.assignment, s.control = w.group.MetaKey(), w.group.AssignmentKey(), w.group.ControlKey()
	for n := range w.units {
		s.owners = append(s.owners, w.group.OwnerKey(n))
		s.checkpoints = append(s.checkpoints, w.group.CheckpointKey(n))
	}
	return s
}

// apply is one transaction of a node, or of an operator (nil).
func (s *store) apply(by *node, t *registry.Txn) registry.Result {
	for i, c := range t.Checks {
		if s.entries[c.Key].version != c.Version {
			s.w.tracef("%s conflicts on %s", name(by), c.Key)
			s.refuse(by, t)
			return registry.Result{Err: registry.ErrConflict, Failed: i}
		}
	}
	for _, p := range t.Puts {
		if p.Session != "" && s.sessions[p.Session] == nil {
			s.w.tracef("%s is fenced: session %s has ended", name(by), p.Session)
			return registry.Result{Err: registry.ErrFenced}
		}
	}
	s.lag()
	res := registry.Result{Versions: make([]registry.Version, len(t.Puts))}
	was := make([]protocol.Owner, len(t.Puts))
	for i, p := range t.Puts {
		was[i] = doc[protocol.Owner](s, p.Key)
		res.Versions[i] = s.put(p)
	}
	for _, key := range t.Deletes {
		s.remove(key)
	}
	for i, p := range t.Puts {
		if by != nil && p.Session != "" && p.Session == by.session {
			by.entered = s.w.now
		}
		if by != nil && kindOf(p.Key) == "members" {
			by.within = doc[protocol.Meta](s, s.meta).Life
		}
		s.tell(by, p.Key, was[i])
	}
	s.whole(by)
	if !t.Quiet {
		s.w.hint()
	}
	return res
}

func (s *store) put(p registry.Put) registry.Version {
	s.count++
	version := registry.Version(fmt.Sprintf("%d.%d", s.nonce, s.count))
	if _, ok := s.entries[p.Key]; !ok {
		if list := s.listOf(p.Key); list != nil {
			i, _ := slices.BinarySearch(*list, p.Key)
			*list = slices.Insert(*list, i, p.Key)
		}
	}
	s.replace(s.entries[p.Key].version)
	s.entries[p.Key] = entryDoc{doc: decoders[kindOf(p.Key)](p), version: version, session: p.Session}
	return version
}

func (s *store) remove(key string) {
	if _, ok := s.entries[key]; !ok {
		return
	}
	s.replace(s.entries[key].version)
	delete(s.entries, key)
	if key == s.meta {
		s.deleted++
	}
	if n := max(slices.Index(s.owners, key), slices.Index(s.checkpoints, key)); n >= 0 { // all begins anew, also for the checker
		s.w.tell(history.Event{Kind: history.Rollback, Unit: n, Partition: n, Positions: s.w.units[n].begin()})
	}
	if list := s.listOf(key); list != nil {
		if i, found := slices.BinarySearch(*list, key); found {
			*list = slices.Delete(*list, i, i+1)
		}
	}
}

func (s *store) listOf(key string) *[]string {
	switch kindOf(key) {
	case "members":
		return &s.members
	case "static":
		return &s.static
	}
	return nil
}

// kindOf is the third part of a key below groups/, or "checkpoints".
func kindOf(key string) string {
	parts := strings.SplitN(key, "/", 4)
	if parts[0] == "checkpoints" {
		return parts[0]
	}
	return parts[2]
}

// decoders are by kind of key.
var decoders = map[string]func(registry.Put) any{
	"meta": into[protocol.Meta], "members": into[protocol.Member], "static": into[protocol.StaticMember],
	"owners": into[protocol.Owner], "assignment": into[protocol.Assignment], "control": into[protocol.Control],
	"checkpoints": into[protocol.Checkpoint],
}

// doc is the document of a key; the zero one when there is none.
func doc[T any](s *store, key string) T {
	d, _ := s.entries[key].doc.(T)
	return d
}

func into[T any](p registry.Put) any {
	var doc T
	if err := json.Unmarshal(p.Value, &doc); err != nil {
		panic(fmt.Sprintf("sim: key %s: %v", p.Key, err))
	}
	return doc
}

// tell reports the meaning of a write to the checker.
func (s *store) tell(by *node, key string, was protocol.Owner) {
	switch kindOf(key) {
	case "assignment":
		for n, target := range doc[protocol.Assignment](s, key).Targets {
			if o, _ := s.owner(n); o.Member != target {
				s.w.units[n].asked[o.Epoch] = true
			}
		}
	case "owners":
		n := slices.Index(s.owners, key)
		o := doc[protocol.Owner](s, key)
		if s.w.over(n) {
			s.w.ended(n, o)
		}
		if strings.Contains(o.Reason, "did not hand it over") {
			s.w.forced++
		}
		s.w.tell(history.Event{
			Kind: history.Owned, Member: o.Member, Incarnation: o.Incarnation, Unit: n, Epoch: o.Epoch, After: o.After, Partition: n,
			Positions: s.positions(n), Handoff: by.handsOver(n, was, o), Crossed: by != nil && by.crossed, Reason: o.Reason,
		})
	case "checkpoints":
		if by == nil {
			return // a seek, which reports itself
		}
		n := slices.Index(s.checkpoints, key)
		c := doc[protocol.Checkpoint](s, key)
		s.w.tell(history.Event{
			Kind: history.Committed, Member: by.name, Incarnation: by.incarnation, Unit: n, Epoch: c.Epoch, Partition: n,
			Positions: c.Positions,
		})
	}
}

// refuse reports checkpoints that were not stored to the checker.
func (s *store) refuse(by *node, t *registry.Txn) {
	for _, p := range t.Puts {
		if kindOf(p.Key) == "checkpoints" {
			n := slices.Index(s.checkpoints, p.Key)
			s.w.tell(history.Event{
				Kind: history.Committed, Member: by.name, Incarnation: by.incarnation, Unit: n, Partition: n, Outcome: history.Refused,
			})
		}
	}
}

func (s *store) positions(n int) []protocol.Position {
	return doc[protocol.Checkpoint](s, s.checkpoints[n]).Positions
}

func (s *store) owner(n int) (protocol.Owner, registry.Version) {
	return doc[protocol.Owner](s, s.owners[n]), s.entries[s.owners[n]].version
}

// list is the first half of a Load: all but the checkpoints. The two readings are not one.
func (s *store) list() *protocol.State {
	st := &protocol.State{Time: s.w.wall()}
	if m := doc[protocol.Meta](s, s.meta); m.Units > 0 && !m.Deleting {
		st.Meta, st.MetaVersion = &m, s.entries[s.meta].version
	}
	for _, key := range s.members {
		st.Members = append(st.Members, doc[protocol.Member](s, key))
		st.MemberVersions = append(st.MemberVersions, s.entries[key].version)
	}
	for _, key := range s.static {
		st.Static = append(st.Static, doc[protocol.StaticMember](s, key))
	}
	if e, ok := s.entries[s.assignment]; ok {
		a := doc[protocol.Assignment](s, s.assignment)
		st.Assignment, st.AssignmentVersion = &a, e.version
	}
	if e, ok := s.entries[s.control]; ok {
		st.Control, st.ControlVersion = doc[protocol.Control](s, s.control), e.version
	}
	if st.Meta != nil {
		st.Units = make([]protocol.Unit, st.Meta.Units)
		for n := range st.Units {
			st.Units[n].Number = n
			st.Units[n].Owner, st.Units[n].OwnerVersion = s.owner(n)
		}
	}
	return st
}

// listCheckpoints is the second half.
func (s *store) listCheckpoints(st *protocol.State) {
	for n := range st.Units {
		if e, ok := s.entries[s.checkpoints[n]]; ok {
			c := doc[protocol.Checkpoint](s, s.checkpoints[n])
			st.Units[n].Checkpoint, st.Units[n].CheckpointVersion = &c, e.version
		}
	}
}

// wall is the store's time of day, Unix ms. All nodes have clocks of their own. In some histories it stands still:
// then an epoch is one above the last of its unit, and tells nothing of other units.
func (w *world) wall() int64 {
	if w.still {
		return beginning
	}
	return beginning + w.now.Milliseconds()
}

const beginning = 1_767_225_600_000 // 2026
