package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

const format = 1 // of the documents below

// metaDoc describes a ring.
type metaDoc struct {
	Format   int   `json:"format"`
	Mode     Mode  `json:"mode"`
	Slots    int   `json:"slots,omitempty"`
	Created  int64 `json:"created"` // Unix ms, informative
	Deleting bool  `json:"deleting,omitempty"`
}

// memberDoc is a live member of an anchor ring.
type memberDoc struct {
	Incarnation string `json:"incarnation"`
	Host        string `json:"host,omitempty"`
	PID         int    `json:"pid,omitempty"`
	Joined      int64  `json:"joined"` // Unix ms
}

// anchorDoc is what the members of an anchor ring agree on.
type anchorDoc struct {
	Format  int               `json:"format"`
	Epoch   int64             `json:"epoch"` // higher with each change, and never below the store's time (protocol.NextEpoch)
	By      string            `json:"by"`
	Reason  string            `json:"reason"`
	Changed int64             `json:"changed"` // Unix ms, informative
	Members map[string]string `json:"members"` // the incarnation of each
	Anchor  *assign.Anchor    `json:"anchor"`
}

// keys of a ring.
type keys struct{ ring string }

func (k keys) prefix() string          { return "rings/" + k.ring + "/" }
func (k keys) meta() string            { return k.prefix() + "meta" }
func (k keys) anchor() string          { return k.prefix() + "anchor" }
func (k keys) members() string         { return k.prefix() + "members/" }
func (k keys) member(id string) string { return k.members() + id }
func (k keys) table() string           { return k.prefix() + "table/" }
func (k keys) start(id string) string  { return k.prefix() + "starts/" + id }

// reading is a consistent reading of an anchor ring.
type reading struct {
	meta        *metaDoc // nil: there is no such ring
	metaVersion registry.Version
	members     map[string]memberDoc
	entries     map[string]registry.Entry // of the members
	doc         *anchorDoc                // nil: no member ever joined
	docVersion  registry.Version
	starts      map[string]registry.Entry // of the members: the last announcement

	time int64     // of the store, Unix ms
	at   time.Time // when the reading was here
}

// now is the store's present time, and never ahead of it.
func (st *reading) now() int64 { return st.time + time.Since(st.at).Milliseconds() }

// read reads the meta document, and all of an anchor ring.
func read(ctx context.Context, reg *registry.Registry, name string) (*reading, error) {
	k := keys{name}
	snap, err := reg.List(ctx, k.prefix())
	if err != nil {
		return nil, err
	}
	st := &reading{time: snap.Time, at: time.Now(), members: map[string]memberDoc{}, entries: map[string]registry.Entry{}, starts: map[string]registry.Entry{}}
	for _, e := range snap.Entries {
		switch id, isMember := strings.CutPrefix(e.Key, k.members()); {
		case e.Key == k.meta():
			st.meta, st.metaVersion = new(metaDoc), e.Version
			err = decode(e, st.meta)
		case e.Key == k.anchor():
			st.doc, st.docVersion = &anchorDoc{Anchor: new(assign.Anchor)}, e.Version
			err = decode(e, st.doc)
		case isMember:
			var m memberDoc
			err = decode(e, &m)
			st.members[id], st.entries[id] = m, e
		}
		if err != nil {
			return nil, err
		}
		if id, ok := strings.CutPrefix(e.Key, k.start("")); ok {
			st.starts[id] = e
		}
	}
	return st, nil
}

// decode reads a document. The error names the key: fault.Newer for a format that this version does not know,
// fault.Corrupt for an invalid or contradictory document.
func decode(e registry.Entry, doc any) error {
	err := json.Unmarshal(e.Value, doc)
	if d, ok := doc.(interface{ check() error }); ok && err == nil {
		err = d.check()
	}
	switch {
	case errors.Is(err, fault.Newer):
		return fmt.Errorf("registry key %q is %w", e.Key, err)
	case err != nil:
		return fmt.Errorf("registry key %q holds no valid document: %w: %w", e.Key, fault.Corrupt, err)
	}
	return nil
}

func newer(have int) error {
	if have > format {
		return fmt.Errorf("of format %d; this version reads format %d: %w", have, format, fault.Newer)
	}
	return nil
}

func (m *metaDoc) check() error {
	if err := newer(m.Format); err != nil {
		return err
	}
	if m.Mode != Anchor && (m.Slots < 1 || m.Slots > maxSlots) {
		return fmt.Errorf("a ring of %d slots; expected 1 to %d", m.Slots, maxSlots)
	}
	return nil
}

func (d *anchorDoc) check() error {
	if err := newer(d.Format); err != nil {
		return err
	}
	if d.Epoch < 0 || d.Anchor == nil {
		return fmt.Errorf("an anchor of epoch %d, or none; expected one of epoch 0 or more", d.Epoch)
	}
	names := d.Anchor.Members()
	slices.Sort(names)
	if !slices.Equal(names, slices.Sorted(maps.Keys(d.Members))) {
		return errors.New("its members are not those of its anchor")
	}
	return nil
}

// next returns the document for the live members, with their incarnations; d itself when it is that
// already, and has an epoch of at least floor. d is nil for the first one; no epoch is below now,
// the store's time: a store that went back may have forgotten later ones.
func (d *anchorDoc) next(live map[string]string, by string, floor, now int64) (*anchorDoc, error) {
	if d == nil {
		d = &anchorDoc{Anchor: new(assign.Anchor)}
	}
	anchor := d.Anchor
	var why, gone, came []string
	for _, id := range slices.Sorted(maps.Keys(d.Members)) {
		if _, ok := live[id]; !ok {
			gone = append(gone, id)
			why = append(why, id+" left")
		}
	}
	if len(gone) > 0 {
		anchor = anchor.Remove(gone...)
	}
	for _, id := range slices.Sorted(maps.Keys(live)) {
		had, ok := d.Members[id]
		switch {
		case !ok:
			came = append(came, id)
			why = append(why, id+" joined")
		case had != live[id]:
			why = append(why, id+" restarted")
		}
	}
	anchor, err := anchor.Add(came...)
	if err != nil {
		return nil, err
	}
	if len(why) == 0 && d.Epoch >= floor && d.Epoch > 0 {
		return d, nil
	}
	if len(why) == 0 {
		why = []string{fmt.Sprintf("the store went back to epoch %d", d.Epoch)}
	}
	if len(why) > 3 {
		why = append(why[:3], "and others")
	}
	return &anchorDoc{
		Format: format, Epoch: protocol.NextEpoch(max(d.Epoch, floor), now), By: by, Reason: strings.Join(why, ", "),
		Changed: time.Now().UnixMilli(), Members: live, Anchor: anchor,
	}, nil
}

// live returns the members with their incarnations.
func (st *reading) live() map[string]string {
	out := make(map[string]string, len(st.members))
	for id, m := range st.members {
		out[id] = m.Incarnation
	}
	return out
}
