package group_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// put writes over what is stored under a key, whatever that is, as a stranger would.
func (c *cluster) put(key, value string) {
	c.t.Helper()
	e, err := c.admin.Registry().Get(c.t.Context(), key)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		c.t.Fatal(err)
	}
	if _, err := c.admin.Registry().Txn(c.t.Context(), registry.Txn{
		Checks: []registry.Check{{Key: key, Version: e.Version}}, Puts: []registry.Put{{Key: key, Value: []byte(value)}},
	}); err != nil {
		c.t.Fatal(err)
	}
}

// What is stored of one unit and can't be read stops that unit, and no other: nobody takes it over, and
// nobody begins it anew. A seek puts it in order.
func TestAUnitThatCannotBeReadStopsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a")
		pass(10 * time.Second)
		must(t, a.stop())
		before := make([]int, units)
		for n := range before {
			before[n] = len(c.of(n))
		}
		c.put(c.admin.CheckpointKey(3), `{"positions":[{"next":-5}]}`)
		c.put(c.admin.OwnerKey(5), `of a newer version`)
		b := c.start("b")
		pass(10 * time.Second)
		for n := range before {
			d, damaged := c.of(n)[before[n]:], n == 3 || n == 5
			if damaged && len(d) > 0 || !damaged && (len(d) == 0 || d[0].offset != int64(before[n])) {
				t.Errorf("unit %d: %v was processed next, after %d records", n, d[:min(1, len(d))], before[n])
			}
		}
		for _, want := range []string{"trouble 3: no member works on it", "trouble 5: no member works on it"} {
			if !b.saw(want) {
				t.Errorf("b told of %q, not of %q", b.events, want)
			}
		}
		if n := len(slices.DeleteFunc(slices.Clone(b.events), func(e string) bool { return !contains(e, "no member works on it") })); n != 2 {
			t.Errorf("it was told %d times that nobody works on a unit; expected once for each of two", n)
		}
		d, err := group.Describe(t.Context(), c.admin.Registry(), "g")
		if err != nil || d.Units[3].CheckpointDamage == nil || d.Units[5].OwnerDamage == nil || d.Units[5].Phase != api.Unowned || d.Units[4].Damage() != nil {
			t.Errorf("it is described as %+v, %v", d, err)
		}
		for _, n := range []int{3, 5} {
			to := protocol.Checkpoint{Positions: []protocol.Position{{Partition: n, Next: int64(before[n])}}}
			must(t, c.admin.Seek(t.Context(), n, to, "mended"))
		}
		pass(10 * time.Second)
		for n := range before {
			if len(c.of(n)) <= before[n] {
				t.Errorf("unit %d stands still", n)
			}
		}
		c.each(0)
	})
}

// Its owner knows how far it got, and stores it over what somebody wrote there.
func TestAnOwnerWritesOverACheckpointThatIsNone(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a")
		pass(10 * time.Second)
		c.put(c.admin.CheckpointKey(3), `{`)
		pass(time.Minute)
		must(t, a.stop())
		c.start("b")
		pass(10 * time.Second)
		for n := range units {
			if c.last(n).member != "b" {
				t.Errorf("unit %d was not taken over", n)
			}
		}
		c.each(units)
	})
}

// An owner that is written over is fenced, and what it may own by that is left alone.
func TestAnOwnerThatIsWrittenOverIsFenced(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a")
		pass(10 * time.Second)
		c.put(c.admin.OwnerKey(3), `{`)
		pass(time.Minute)
		if got := a.owns(); slices.Contains(got, 3) || len(got) != units-1 {
			t.Errorf("a works on %v", got)
		}
		if !a.saw("fenced 3: ") {
			t.Errorf("a told of %q", a.events)
		}
		c.each(0)
	})
}

// A member of a newer version, whose entry this one can't read, keeps what it has while its session lives,
// and is given nothing.
func TestAMemberThatCannotBeReadKeepsItsUnitsWhileItsSessionLives(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		_, err := c.admin.EnsureMeta(t.Context(), protocol.Meta{Topic: "t", Units: units, Assignor: "sticky"})
		must(t, err)
		h := c.store.Open()
		t.Cleanup(func() { _ = h.Close() })
		s, err := h.OpenSession(t.Context(), time.Minute)
		must(t, err)
		if _, err := h.Txn(t.Context(), registry.Txn{Puts: []registry.Put{
			{Key: c.admin.MemberKey("newer"), Value: []byte(`{"id":["newer"]}`), Session: s.ID()},
			{Key: c.admin.OwnerKey(3), Value: registry.Encode(protocol.Owner{Member: "newer", Incarnation: "n1", Epoch: 7})},
		}}); err != nil {
			t.Fatal(err)
		}
		a := c.start("a")
		pass(10 * time.Minute)
		if got := a.owns(); len(got) != units-1 || slices.Contains(got, 3) {
			t.Errorf("a works on %v; expected all but 3", got)
		}
		if err := c.admin.Delete(t.Context()); !errors.Is(err, registry.ErrConflict) {
			t.Errorf("a deletion: %v; expected a conflict with who is there", err)
		}
		h.Kill()
		pass(2 * time.Minute)
		if got := a.owns(); len(got) != units {
			t.Errorf("a works on %v; expected all", got)
		}
	})
}

// An assignment is a plan, and nothing is lost with it: one that can't be read is made anew, at once by
// who is there, else by who comes.
func TestAnAssignmentThatCannotBeReadIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		key := c.admin.AssignmentKey()
		a := c.start("a")
		pass(10 * time.Second)
		c.put(key, `of nobody`)
		pass(10 * time.Second)
		if d, err := group.Describe(t.Context(), c.admin.Registry(), "g"); err != nil || d.Assignment.By != "a" || !contains(d.Assignment.Reason, key) {
			t.Errorf("while a runs: %+v, %v", d, err)
		}
		c.put(key, `{"version":-1}`)
		b := c.start("b")
		pass(10 * time.Second)
		if x, y := a.owns(), b.owns(); len(x) != units/2 || len(y) != units-units/2 {
			t.Errorf("a works on %v, b on %v", x, y)
		}
		for _, m := range []*proc{a, b} {
			must(t, m.stop())
		}
		c.put(key, `[`)
		if d, err := group.Describe(t.Context(), c.admin.Registry(), "g"); err != nil || !contains(d.Assignment.Reason, key) || len(d.Units) != units {
			t.Errorf("while nobody runs: %+v, %v", d, err)
		}
		x := c.start("c")
		pass(10 * time.Second)
		if got := x.owns(); len(got) != units {
			t.Errorf("c works on %v", got)
		}
		c.each(0)
	})
}
