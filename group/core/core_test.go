package core

import (
	"slices"
	"testing"
)

func TestFirstMemberTakesAllUnits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a")
	w.quiet()
	w.complete()
	if got := len(a.units()); got != 8 {
		t.Fatalf("a runs %d units; want 8", got)
	}
}

func TestJoinMovesOnlyWhatItMust(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a")
	w.quiet()
	a.work(10)
	w.start("b")
	w.quiet()
	w.complete()
	if got := len(a.units()); got != 4 {
		t.Fatalf("a runs %d units after b joined; want 4", got)
	}
	for _, u := range a.units() {
		if a.starts[u] != 1 {
			t.Errorf("unit %d stayed on a but was started %d times", u, a.starts[u])
		}
	}
	for _, r := range w.nodes[1].reports {
		if r.Kind == Assigned && (r.From != "a" || r.Text != "handoff from a: b joined") {
			t.Errorf("b got unit %d from %q because %q; want from a, because b joined", r.Unit, r.From, r.Text)
		}
	}
	before := slices.Clone(a.units())
	w.start("c")
	w.quiet()
	w.complete()
	for _, u := range a.units() {
		if !slices.Contains(before, u) || a.starts[u] != 1 {
			t.Errorf("unit %d on a: had before %v, started %d times", u, before, a.starts[u])
		}
	}
}
