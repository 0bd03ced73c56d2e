package core

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// again deletes the group and makes it anew for somebody else, with an entry of the same session of each
// member: the worst that a member can meet when it reads the group next.
func (w *world) again() {
	members := map[string]registry.Entry{}
	for key, e := range w.store.entries {
		if e.Session != "" {
			members[key] = e
		}
	}
	m := *w.load().Meta
	m.Life = "another"
	w.remove()
	maps.Copy(w.store.entries, members)
	w.store.one(&registry.Txn{Puts: []registry.Put{{Key: w.group.MetaKey(), Value: registry.Encode(m)}}})
}

func TestAMemberOfOneLifeDoesNotGoOnInAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a")
	w.pass(5 * time.Second)
	if len(a.running) != 8 {
		t.Fatalf("%d units run, want 8", len(a.running))
	}
	w.again()
	w.pass(5 * time.Second)
	if a.exit == nil || !errors.Is(a.exit.Err, registry.ErrNotFound) || len(a.running) > 0 {
		t.Fatalf("its exit is %+v, want ErrNotFound; %d units run", a.exit, len(a.running))
	}
	for key := range w.store.entries {
		if key != w.group.MetaKey() && key != w.group.MemberKey("a") {
			t.Errorf("the member of another life has written %s", key)
		}
	}
}

// The end of a static member's restart window, written in one life, is none in the next.
func TestTheEndOfAWindowOfAnotherLifeIsNotStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.start("b", func(c *Config) { c.Static, c.RestartWindow = true, 2*time.Second })
	w.pass(2 * time.Second)
	w.start("a")
	w.pass(2 * time.Second)
	static, deleted := w.store.entries[w.group.StaticKey("b")], false
	w.store.onApply = func(key string) {
		if !deleted && key == w.group.MemberKey("b") {
			deleted = true
			w.again()
			w.store.entries[static.Key] = static
		}
	}
	w.kill(b)
	w.pass(10 * time.Second)
	if _, ok := w.store.entries[static.Key]; !deleted || !ok {
		t.Errorf("it was tried: %v; the window of the next life is still there: %v", deleted, ok)
	}
}

// A reading that is from after a handover does not get the checkpoint that the owner before it stored
// meanwhile, in a store that has lost that one.
func TestACheckpointOfAnEarlierOwnerIsNotKept(t *testing.T) {
	t.Parallel()
	for owner, want := range map[registry.Version]registry.Version{"same": "stored", "next": "shown"} {
		reading := func(owner, point registry.Version) *protocol.State {
			return &protocol.State{
				Meta:  &protocol.Meta{Units: 1},
				Units: []protocol.Unit{{OwnerVersion: owner, CheckpointVersion: point}},
			}
		}
		s := New(Config{Units: 1})
		s.merge(reading("same", "shown"))
		s.loadStep = 5
		s.units[0].point.wrote(&write{sent: 6}, s.loadStep, s.viewStep, "shown", "shown", "stored")
		s.view.Units[0].CheckpointVersion = "stored"
		s.merge(reading(owner, "shown"))
		if got := s.view.Units[0].CheckpointVersion; got != want {
			t.Errorf("with the %s owner the checkpoint is that of version %q, want %q", owner, got, want)
		}
	}
}
