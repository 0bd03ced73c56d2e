package harness

import (
	"cmp"
	"iter"
	"math/rand/v2"
	"slices"
	"time"
)

// Trouble is one way to hurt a group, its store or its network.
type Trouble struct {
	Name  string
	Hurts int              // what it hurts: two that come at once hurt different things, the lower first
	Alone bool             // nothing else may come with it
	Hold  [2]time.Duration // how long it lasts, at least and at most
}

// Injection is a trouble at a time.
type Injection struct {
	Trouble
	Hold time.Duration
	Pick int // chooses the victim
}

// Step is one or two injections at once, and the quiet after them.
type Step struct {
	Round      int
	Injections []Injection
	Calm       time.Duration
}

// Plan is an endless list of steps, the same for the same seed. In each round every trouble comes
// once. calm is the longest quiet between two steps. Without troubles it is empty.
func Plan(seed uint64, troubles []Trouble, calm time.Duration) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a plan that can be repeated, no secret
		for round := 0; len(troubles) > 0; round++ {
			bag := slices.Clone(troubles)
			random.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
			for len(bag) > 0 {
				first := bag[0]
				s := Step{Round: round, Injections: []Injection{first.at(random)}, Calm: upTo(random, calm)}
				bag = bag[1:]
				i := slices.IndexFunc(bag, func(k Trouble) bool { return !first.Alone && !k.Alone && k.Hurts != first.Hurts })
				if i >= 0 && random.IntN(3) > 0 {
					s.Injections = append(s.Injections, bag[i].at(random))
					bag = slices.Delete(bag, i, i+1)
				}
				slices.SortFunc(s.Injections, func(a, b Injection) int { return cmp.Compare(a.Hurts, b.Hurts) })
				if !yield(s) {
					return
				}
			}
		}
	}
}

func (k Trouble) at(random *rand.Rand) Injection {
	return Injection{Trouble: k, Hold: k.Hold[0] + upTo(random, k.Hold[1]-k.Hold[0]), Pick: random.IntN(1 << 16)}
}

func upTo(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(most) + 1))
}
