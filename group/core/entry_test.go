package core

import (
	"testing"

	"github.com/ringfence/ringfence/registry"
)

// TestWhatAReadingMayOverwrite has a row for each order in which a reading and our own writes can
// meet. The entry is at v0; the reading is asked for in step 10.
func TestWhatAReadingMayOverwrite(t *testing.T) {
	t.Parallel()
	const asked = 10
	type done struct {
		sent          uint64
		before, after registry.Version
		asked         uint64 // the reading last asked for when it was answered
	}
	for _, c := range []struct {
		name        string
		writes      []done
		open        uint64
		shown       registry.Version
		keep, again bool
	}{
		{name: "nothing was written", shown: "v1"},
		{name: "answered before the reading was asked for", writes: []done{{5, "v0", "v1", 4}}, shown: "v1"},
		{name: "answered before, and the store went back", writes: []done{{5, "v0", "v1", 4}}, shown: "v0"},
		{name: "sent and answered during the reading, which is from before", writes: []done{{11, "v0", "v1", asked}}, shown: "v0", keep: true},
		{name: "sent in the step of the reading, which is from before", writes: []done{{10, "v0", "v1", asked}}, shown: "v0", keep: true},
		{name: "sent before, answered during: the reading was quicker, or the write is lost", writes: []done{{9, "v0", "v1", asked}}, shown: "v0", keep: true, again: true},
		{name: "the reading shows the write", writes: []done{{9, "v0", "v1", asked}}, shown: "v1"},
		{name: "others went on from the write", writes: []done{{9, "v0", "v1", asked}}, shown: "v7"},
		{name: "a write upon a write confirms it", writes: []done{{9, "v0", "v1", asked}, {12, "v1", "v2", asked}}, shown: "v0", keep: true},
		{name: "the reading is from between two writes", writes: []done{{9, "v0", "v1", asked}, {12, "v1", "v2", asked}}, shown: "v1", keep: true},
		{name: "the reading shows the second of two writes", writes: []done{{9, "v0", "v1", asked}, {12, "v1", "v2", asked}}, shown: "v2"},
		{name: "the first write of an entry", writes: []done{{11, "", "v1", asked}}, shown: "", keep: true},
		{name: "an unknown fate before the reading was asked for", open: 9, shown: "v1"},
		{name: "an unknown fate during the reading", open: 11, shown: "v1", again: true},
		{name: "an unknown fate after a write, and the reading is from before", writes: []done{{11, "v0", "v1", asked}}, open: 12, shown: "v0", keep: true, again: true},
	} {
		var e entry
		for _, w := range c.writes {
			e.wrote(&write{sent: w.sent}, w.asked, 0, w.before, w.before, w.after)
		}
		if c.open != 0 {
			e.doubt(c.open)
		}
		if keep, again := e.read(asked, c.shown); keep != c.keep || again != c.again {
			t.Errorf("%s: keep %v, again %v; want %v and %v", c.name, keep, again, c.keep, c.again)
		}
		if open := e.open != 0; open != (c.open > asked) {
			t.Errorf("%s: its fate is still open: %v", c.name, open)
		}
	}
}

// The answer to a write may be slower than a reading that shows it, or what others made of it.
func TestAWriteThatIsAnsweredLate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		seen           uint64 // the step in which the reading of the view was asked for; sent is 10
		has            registry.Version
		current, again bool
	}{
		{"the view is from before", 9, "v0", true, false},
		{"the view was asked for in the same step", 10, "v0", true, false},
		{"a later reading did not show it", 11, "v0", true, true},
		{"a later reading shows it", 11, "v1", true, false},
		{"a later reading shows more", 11, "v2", false, false},
	} {
		var e entry
		current, again := e.wrote(&write{sent: 10}, 1, c.seen, c.has, "v0", "v1")
		if current != c.current || again != c.again {
			t.Errorf("%s: current %v, again %v; want %v and %v", c.name, current, again, c.current, c.again)
		}
	}
}
