package protocol_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

func (f *fixture) life() string {
	f.t.Helper()
	m, err := f.g.Meta(f.t.Context())
	must(f.t, err)
	return m.Life
}

func TestALifeIsMadeWithTheGroupAndNeverAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	first := f.life()
	if first == "" {
		t.Fatal("a group without a life")
	}
	_, err := f.g.EnsureMeta(t.Context(), protocol.Meta{Topic: "payments", Units: 2})
	must(t, err)
	must(t, f.g.Grow(t.Context(), 4))
	must(t, f.g.Seek(t.Context(), 0, at(1), ""))
	if now := f.life(); now != first {
		t.Errorf("the life went from %q to %q while the group was there", first, now)
	}
	must(t, f.g.Delete(t.Context()))
	_, err = f.g.EnsureMeta(t.Context(), protocol.Meta{Topic: "payments", Units: 2, Life: first})
	must(t, err)
	if f.life() == first {
		t.Errorf("the next group of the name has the life of the one before, %q", first)
	}
}

// What somebody began to do with a group is not done to the next one of its name.
func TestNothingIsDoneToAnotherLife(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	g := f.g.Within(f.life())
	must(t, f.g.Delete(t.Context()))
	_, err := f.g.EnsureMeta(t.Context(), protocol.Meta{Topic: "payments", Units: 2, Assignor: "sticky"})
	must(t, err)
	wantErr(t, g.Seek(t.Context(), 0, at(7), ""), registry.ErrNotFound)
	wantErr(t, g.Grow(t.Context(), 9), registry.ErrNotFound)
	wantErr(t, g.Pause(t.Context(), "me"), registry.ErrNotFound)
	_, err = g.Meta(t.Context())
	wantErr(t, err, registry.ErrNotFound)
	must(t, g.Delete(t.Context()))
	st, err := f.g.Load(t.Context(), true)
	must(t, err)
	if st.Meta == nil || st.Meta.Units != 2 || st.Units[0].Checkpoint != nil || st.Control.Paused {
		t.Errorf("the next life was changed: %+v", st)
	}
}

// A store that goes back in the middle of a deletion has again what was removed. The deletion must not
// take the group's document then and leave the rest: the next group would begin with it.
func TestADeletionInAStoreThatGoesBackLeavesNothing(t *testing.T) {
	t.Parallel()
	d := &goesBack{entries: map[string]registry.Entry{}}
	g := groupOf(t, registry.New(d))
	_, err := g.EnsureMeta(t.Context(), protocol.Meta{Topic: "payments", Units: 2})
	must(t, err)
	must(t, g.Seek(t.Context(), 0, at(5), ""))
	d.last = g.MetaKey()
	must(t, g.Delete(t.Context()))
	if d.saved == nil || d.last != "" || len(d.entries) > 0 {
		t.Errorf("the store has not gone back (%v, %q), or of the deleted group there is %v", d.saved != nil, d.last, d.entries)
	}
}

// goesBack is a store that goes back, just before the last write of a deletion, to before its first
// removal.
type goesBack struct {
	entries, saved map[string]registry.Entry
	count          int
	last           string // the key that the last write removes; "": it went back
}

func (d *goesBack) List(_ context.Context, prefix string) (snap registry.Snapshot, _ error) {
	for _, key := range slices.Sorted(maps.Keys(d.entries)) {
		if strings.HasPrefix(key, prefix) {
			snap.Entries = append(snap.Entries, d.entries[key])
		}
	}
	return snap, nil
}

func (d *goesBack) Apply(_ context.Context, txns []registry.Txn) ([]registry.Result, error) {
	t := txns[0]
	switch {
	case d.last == "" || len(t.Deletes) == 0:
	case d.saved == nil:
		d.saved = maps.Clone(d.entries)
	case t.Deletes[0] == d.last:
		d.entries, d.last = d.saved, ""
	}
	for i, c := range t.Checks {
		if d.entries[c.Key].Version != c.Version {
			return []registry.Result{{Err: registry.ErrConflict, Failed: i}}, nil
		}
	}
	var res registry.Result
	for _, p := range t.Puts {
		d.count++
		e := registry.Entry{Key: p.Key, Value: p.Value, Version: registry.Version(fmt.Sprint(d.count))}
		d.entries[p.Key] = e
		res.Versions = append(res.Versions, e.Version)
	}
	for _, key := range t.Deletes {
		delete(d.entries, key)
	}
	return []registry.Result{res}, nil
}

func (d *goesBack) Watch(context.Context, string) (<-chan struct{}, error) {
	return nil, registry.ErrInvalid
}

func (d *goesBack) OpenSession(context.Context, time.Duration) (registry.Session, error) {
	return nil, registry.ErrInvalid
}

func (d *goesBack) Close() error { return nil }
