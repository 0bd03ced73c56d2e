package nemesis

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/harness"
)

// What a trouble hurts, in the order in which two begin that come at once: a network can only be
// broken while somebody talks through it. What changes the topics goes on beside the others.
const (
	theTopics = iota
	aNetwork
	theServer
	aBroker
	aMember
)

// trouble is one way to hurt the world.
type trouble struct {
	harness.Trouble
	soak time.Duration // how long it holds at full length; 0: as always

	// begin hurts, and returns when the harm was seen to be done. end makes it good; nil: nothing to do.
	begin func(w *world, pick int) (end func())
}

// calm is the longest quiet between two steps.
const calm = 300 * time.Millisecond

// plan is the list of steps of a seed.
func plan(seed uint64, kinds []trouble, full bool) iter.Seq[harness.Step] {
	var of []harness.Trouble
	for _, k := range kinds {
		if full && k.soak > 0 {
			k.Hold = [2]time.Duration{k.soak, k.soak}
		}
		of = append(of, k.Trouble)
	}
	return harness.Plan(seed, of, calm)
}

func named(kinds []trouble, name string) trouble {
	return kinds[slices.IndexFunc(kinds, func(k trouble) bool { return k.Name == name })]
}

func TestAFullRunStopsTheServerForAMinute(t *testing.T) {
	t.Parallel()
	longest := time.Duration(0)
	for s := range plan(1, troubles, true) {
		if s.Round > 0 {
			break
		}
		for _, x := range s.Injections {
			longest = max(longest, x.Hold)
		}
	}
	if longest != time.Minute {
		t.Errorf("the longest trouble lasts %s; expected a minute", longest)
	}
}
