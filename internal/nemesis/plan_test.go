package nemesis

import (
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// target is what a trouble hurts. The order is that in which two begin that come at once: a
// network can only be broken while somebody talks through it.
type target int

const (
	aNetwork target = iota
	theServer
	aMember
)

// trouble is one way to hurt the world.
type trouble struct {
	name  string
	hurts target
	alone bool // its evidence calls for a world that is well otherwise
	hold  [2]time.Duration
	soak  time.Duration // how long it holds at full length; 0: as always

	// begin hurts, and returns when the harm was seen to be done. end makes it good; nil: nothing to do.
	begin func(w *world, pick int) (end func())
}

// ill is a trouble at a time.
type ill struct {
	trouble
	hold time.Duration
	pick int // chooses the victim
}

// step is one or two ills at once, and the quiet after them.
type step struct {
	round int
	ills  []ill
	calm  time.Duration
}

// plan is an endless list of steps, the same for the same seed. In each round every kind of
// trouble comes once, and two that come at once hurt different things.
func plan(seed uint64, kinds []trouble, full bool) iter.Seq[step] {
	return func(yield func(step) bool) {
		random := rand.New(rand.NewPCG(seed, 0))
		for round := 0; ; round++ {
			bag := slices.Clone(kinds)
			random.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
			for len(bag) > 0 {
				s := step{round: round, ills: []ill{bag[0].at(random, full)}, calm: upTo(random, 300*time.Millisecond)}
				first := bag[0]
				bag = bag[1:]
				i := slices.IndexFunc(bag, func(k trouble) bool { return !first.alone && !k.alone && k.hurts != first.hurts })
				if i >= 0 && random.IntN(3) > 0 {
					s.ills = append(s.ills, bag[i].at(random, full))
					bag = slices.Delete(bag, i, i+1)
				}
				slices.SortFunc(s.ills, func(a, b ill) int { return int(a.hurts) - int(b.hurts) })
				if !yield(s) {
					return
				}
			}
		}
	}
}

func (k trouble) at(random *rand.Rand, full bool) ill {
	x := ill{trouble: k, hold: k.hold[0] + upTo(random, k.hold[1]-k.hold[0]), pick: random.IntN(1 << 16)}
	if full && k.soak > 0 {
		x.hold = k.soak
	}
	return x
}

func upTo(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(most) + 1))
}

func TestASeedRepeatsThePlanAndEachRoundHasEveryTrouble(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		var steps []step
		for s := range plan(seed, troubles, false) {
			if s.round > 1 {
				break
			}
			steps = append(steps, s)
		}
		next, stop := iter.Pull(plan(seed, troubles, false))
		defer stop()
		met := [2]map[string]int{{}, {}}
		for i, s := range steps {
			again, _ := next()
			if again.calm != s.calm || len(again.ills) != len(s.ills) {
				t.Fatalf("seed %d: step %d is %v the first time, and then %v", seed, i, s, again)
			}
			for j, x := range s.ills {
				met[s.round][x.name]++
				if y := again.ills[j]; x.name != y.name || x.hold != y.hold || x.pick != y.pick {
					t.Fatalf("seed %d: step %d has %q the first time, and then %q", seed, i, x.name, y.name)
				}
			}
			if len(s.ills) > 1 && (s.ills[0].hurts >= s.ills[1].hurts || s.ills[0].alone || s.ills[1].alone) {
				t.Errorf("seed %d: %q and %q come at once", seed, s.ills[0].name, s.ills[1].name)
			}
		}
		for _, k := range troubles {
			if met[0][k.name] != 1 || met[1][k.name] != 1 {
				t.Errorf("seed %d: %q comes %d times in the first round and %d times in the second; expected 1 and 1",
					seed, k.name, met[0][k.name], met[1][k.name])
			}
		}
	}
}

func TestAFullRunStopsTheServerForAMinute(t *testing.T) {
	t.Parallel()
	longest := time.Duration(0)
	for s := range plan(1, troubles, true) {
		if s.round > 0 {
			break
		}
		for _, x := range s.ills {
			longest = max(longest, x.hold)
		}
	}
	if longest != time.Minute {
		t.Errorf("the longest trouble lasts %s; expected a minute", longest)
	}
}
