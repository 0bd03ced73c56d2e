package ring

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// View is a ring as it was at one moment. It never changes, and takes no part in the ring.
type View struct {
	Ring    string
	Mode    Mode
	Slots   int      // of a table ring
	Epoch   int64    // grows whenever the members change
	Reason  string   // of the last change, for people
	Members []Member // sorted by ID

	anchor *assign.Anchor // of an anchor ring
	slots  []slot         // of a table ring
}

// Member is one of a ring.
type Member struct {
	ID          string
	Incarnation string
	Host        string
	PID         int
	Joined      int64 // Unix ms, informative
}

// slot is the owner of a slot in a table ring.
type slot struct {
	member string // "": none
	epoch  int64
}

// Owner returns the member that handles a key, and its epoch; "" when there is none.
func (v *View) Owner(key string) (member string, epoch int64) {
	if v.anchor != nil {
		if member = v.anchor.Owner(key); member == "" {
			return "", 0
		}
		return member, v.Epoch
	}
	if len(v.slots) == 0 {
		return "", 0 // it was never read
	}
	s := &v.slots[assign.Slot(assign.HashKey(key), len(v.slots))]
	return s.member, s.epoch
}

// Slot returns the number of the slot of a key, in a table ring; -1 in another.
func (v *View) Slot(key string) int {
	if len(v.slots) == 0 {
		return -1
	}
	return assign.Slot(assign.HashKey(key), len(v.slots))
}

// Member finds a member by its ID.
func (v *View) Member(id string) (Member, bool) {
	i, ok := slices.BinarySearchFunc(v.Members, id, func(m Member, id string) int { return cmp.Compare(m.ID, id) })
	if !ok {
		return Member{}, false
	}
	return v.Members[i], true
}

// Shares returns the part of the keys that each member has, from 0 to 1: of a table ring exactly,
// of an anchor ring by asking for that many made-up keys. It includes members without a key.
func (v *View) Shares(samples int) map[string]float64 {
	counts := make(map[string]int, len(v.Members))
	total := len(v.slots)
	for _, s := range v.slots {
		if s.member != "" {
			counts[s.member]++
		}
	}
	if v.anchor != nil && v.anchor.Len() > 0 {
		total = samples
		for i := range samples {
			counts[v.anchor.Owner(fmt.Sprintf("sample-%d", i))]++
		}
	}
	shares := make(map[string]float64, len(v.Members))
	for _, m := range v.Members {
		shares[m.ID] = float64(counts[m.ID]) / float64(max(total, 1))
	}
	return shares
}

// same reports whether two views show the same.
func (v *View) same(o *View) bool {
	return v.Epoch == o.Epoch && v.Reason == o.Reason && slices.Equal(v.Members, o.Members) && slices.Equal(v.slots, o.slots)
}

// Look reads a ring without joining it; ErrNotFound when there is none of that name.
func Look(ctx context.Context, reg *registry.Registry, name string) (*View, error) {
	if err := registry.CheckID("ring", name); err != nil {
		return nil, err
	}
	st, err := read(ctx, reg, name)
	if err != nil {
		return nil, fmt.Errorf("ring %q: %w", name, err)
	}
	if st.meta == nil || st.meta.Deleting {
		return nil, fmt.Errorf("ring %q: %w", name, ErrNotFound)
	}
	if st.meta.Mode == Anchor {
		return st.view(name), nil
	}
	g, err := protocol.NewGroup(registry.New(&prefixed{reg: reg, prefix: keys{name}.table()}), slotsName)
	if err != nil {
		return nil, err
	}
	group, err := g.Survey(ctx, false)
	if err != nil {
		return nil, fmt.Errorf("ring %q: %w", name, err)
	}
	return tableView(name, st.meta.Slots, group), nil
}

// view returns the View of an anchor ring.
func (st *reading) view(name string) *View {
	v := &View{Ring: name, Mode: Anchor, anchor: new(assign.Anchor)}
	if st.doc == nil {
		return v
	}
	v.Epoch, v.Reason, v.anchor = st.doc.Epoch, st.doc.Reason, st.doc.Anchor
	for _, id := range slices.Sorted(maps.Keys(st.doc.Members)) {
		m := st.members[id] // none when it has just died
		v.Members = append(v.Members, Member{ID: id, Incarnation: st.doc.Members[id], Host: m.Host, PID: m.PID, Joined: m.Joined})
	}
	return v
}

// tableView returns the View of a table ring.
func tableView(name string, slots int, st *protocol.State) *View {
	v := &View{Ring: name, Mode: Table, Slots: slots, slots: make([]slot, slots)}
	for _, m := range staying(st) {
		v.Members = append(v.Members, Member{ID: m.ID, Incarnation: m.Incarnation, Host: m.Host, PID: m.PID, Joined: m.Joined})
	}
	slices.SortFunc(v.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	if st.Assignment != nil {
		v.Epoch, v.Reason = st.Assignment.Version, st.Assignment.Reason
	}
	if len(v.Members) == 0 {
		v.Reason = "" // no member is left to write why
	}
	for i := range min(slots, len(st.Units)) {
		if o := &st.Units[i].Owner; st.Alive(*o) {
			v.slots[i] = slot{member: o.Member, epoch: o.Epoch}
		}
	}
	return v
}

// staying returns the members that are not about to leave.
func staying(st *protocol.State) []protocol.Member {
	return slices.DeleteFunc(slices.Clone(st.Members), func(m protocol.Member) bool { return m.Draining })
}

// List returns the names of the rings, sorted, also of one whose document can't be read.
func List(ctx context.Context, reg *registry.Registry) ([]string, error) {
	const prefix = "rings/"
	snap, err := reg.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range snap.Entries {
		name, ok := strings.CutSuffix(strings.TrimPrefix(e.Key, prefix), "/meta")
		if !ok || strings.Contains(name, "/") {
			continue
		}
		var m metaDoc
		if err := decode(e, &m); err != nil || !m.Deleting {
			names = append(names, name)
		}
	}
	return names, nil
}
