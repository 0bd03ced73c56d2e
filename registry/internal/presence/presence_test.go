package presence_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/registry/internal/presence"
)

type reading = presence.Reading[string, int]

// of is a reading with a session of each process.
func of(processes ...int) (r reading) {
	for i, p := range processes {
		r = append(r, presence.Sighting[string, int]{Session: fmt.Sprint("s", i), Process: p})
	}
	return r
}

func TestEachProcessWatchesThoseThatFollowIt(t *testing.T) {
	t.Parallel()
	over := of(10, 20, 20, 30)
	over[1].Over = true // one of two: its process still has the other
	over[3].Over = true
	for _, c := range []struct {
		what    string
		r       reading
		self, n int
		want    []int
	}{
		{"nobody is there", of(), 1, 2, nil},
		{"it is alone", of(1, 1), 1, 2, nil},
		{"there are two", of(1, 2), 1, 2, []int{2}},
		{"those with higher names", of(4, 3, 2, 1), 1, 2, []int{2, 3}},
		{"around the end of the ring", of(1, 2, 3, 4), 4, 2, []int{1, 2}},
		{"across the end of the ring", of(1, 2, 3, 4), 3, 2, []int{4, 1}},
		{"one is enough", of(1, 2, 3), 2, 1, []int{3}},
		{"a process with several sessions counts once", of(1, 2, 2, 2, 3), 1, 2, []int{2, 3}},
		{"it has no session itself", of(1, 3, 5), 4, 2, []int{5, 1}},
		{"nobody can watch the nameless", of(0, 1, 2), 1, 2, []int{2}},
		{"whose end is being written is not watched", over, 10, 2, []int{20}},
	} {
		if got := c.r.Successors(c.self, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%s: process %d watches %v, expected %v", c.what, c.self, got, c.want)
		}
	}
	if over.In(30) || !over.In(20) || of().In(1) {
		t.Error("who stands in the ring is not who has a session that is not over")
	}
}

func TestWhatFollowsFromAReading(t *testing.T) {
	t.Parallel()
	r := of(1, 2, 1, 3, 3, 0)
	if got := r.Of(1); !slices.Equal(got, []string{"s0", "s2"}) {
		t.Errorf("the sessions of a process are %v", got)
	}
	if got := r.Missing([]string{"s0", "gone", "s3"}); !slices.Equal(got, []string{"gone"}) {
		t.Errorf("%v are missing; expected the one that is not there", got)
	}
	for i := range r {
		r[i].Silent = r[i].Process != 2
	}
	if got := r.Suspects(1); !slices.Equal(got, []int{3}) {
		t.Errorf("the suspects are %v; expected the silent, once, and neither itself nor the nameless", got)
	}
}

// Whoever dies, and however many at once: as long as somebody lives, somebody watches one of the
// dead, and so one after the other is found. When all are, each is watched by as many as it ought to be.
func TestEveryDeathIsSeenBySomebodyAlive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "n")
		members := rapid.SliceOfNDistinct(rapid.IntRange(1, 40), 1, 10, rapid.ID).Draw(t, "members")
		var r reading
		alive := map[int]bool{}
		for _, p := range members {
			alive[p] = rapid.Bool().Draw(t, fmt.Sprint(p, " lives"))
			for range rapid.IntRange(1, 3).Draw(t, "sessions") {
				r = append(r, presence.Sighting[string, int]{Session: fmt.Sprint("s", len(r)), Process: p})
			}
		}
		living := slices.DeleteFunc(slices.Clone(members), func(p int) bool { return !alive[p] })
		if rapid.Bool().Draw(t, "somebody without a session watches") || len(living) == 0 {
			living = append(living, 50)
		}
		dead := func() bool {
			return slices.ContainsFunc(r, func(x presence.Sighting[string, int]) bool { return !alive[x.Process] })
		}
		for dead() {
			var found []int
			for _, self := range living {
				watched := r.Successors(self, n)
				if slices.Contains(watched, self) {
					t.Fatalf("process %d watches itself", self)
				}
				found = append(found, slices.DeleteFunc(watched, func(p int) bool { return alive[p] })...)
			}
			if len(found) == 0 {
				t.Fatalf("of %v nobody watches one of the dead: %v", living, r)
			}
			r = slices.DeleteFunc(r, func(x presence.Sighting[string, int]) bool { return slices.Contains(found, x.Process) })
		}
		watchers := map[int]int{}
		for _, self := range living {
			if !r.In(self) {
				continue
			}
			for _, p := range r.Successors(self, n) {
				watchers[p]++
			}
		}
		for p := range alive {
			members := len(living)
			if slices.Contains(living, 50) {
				members--
			}
			if want := min(n, members-1); alive[p] && watchers[p] != want {
				t.Fatalf("%d of %d members watch process %d; expected %d", watchers[p], members, p, want)
			}
		}
	})
}
