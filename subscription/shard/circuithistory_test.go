package shard

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// An outage costs no record its attempts, be it new or parked, of one key or of a thousand.
func TestCircuitCountsNothingInAnOutage(t *testing.T) {
	t.Parallel()
	for _, lines := range []uint64{1, 2, 20, 1000} {
		for _, first := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t)
				defer b.end()
				for line := range lines {
					b.attempt(line, first, errors.New("broken")) // each was answered before
				}
				for range 20 {
					for line := range lines {
						if !b.attempt(line, first, down{}) {
							t.Fatalf("an attempt of line %d of %d counts (first attempts: %t)", line, lines, first)
						}
					}
					time.Sleep(time.Second)
				}
				if b.attempt(0, first, nil) || b.open() {
					t.Error("the answer that ends it does not count, or does not end it")
				}
			})
		}
	}
}

// A record that never gets an answer while others do uses up its attempts, and the pauses of those that do not count grow.
func TestCircuitCountsAgainstARecordWhileOthersAreAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t)
		defer b.end()
		poison := func() verdict { return b.ended(b.try(), 1, false, down{}) }
		for i := range 5 {
			if v := poison(); !v.uncounted || v.tries != i+1 {
				t.Errorf("try %d, with nobody answered: %+v", i+1, v)
			}
		}
		for range 10 { // and nobody else after that
			b.attempt(2, true, nil)
		}
		for range 10 {
			if v := poison(); v.uncounted {
				t.Errorf("others were answered: %+v", v)
			}
		}
		if v := poison(); !v.uncounted || v.tries != 1 {
			t.Errorf("more attempts count than others were answered: %+v", v)
		}
		b.attempt(2, true, nil)
		b.attempt(3, false, down{})
		b.attempt(4, false, down{})
		if v := poison(); !v.uncounted {
			t.Errorf("several keys get no answer, and it counts: %+v", v)
		}
		for line := range uint64(9) {
			b.absolve(line)
		}
		if !b.healthy.Load() {
			t.Error("it suspects somebody, and nothing fails")
		}
	})
}

// history is what a circuit is judged by: it knows of each line when it was answered last, and of all others.
type history struct {
	answers int            // in all
	of      map[uint64]int // of them, those of a line
	tried   map[uint64]int // answers of others at the last try of a line that ended in an outage
}

func (h *history) others(line uint64) int { return h.answers - h.of[line] }

// Whatever comes in whatever order: nothing counts while it is open; what counts, counts since others were answered; one
// answer that began since the opening closes it; and when it is closed it tries without a bound.
func TestCircuitHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := newCircuit(quiet())
		defer b.end()
		h := history{of: map[uint64]int{}, tried: map[uint64]int{}}
		type begun struct {
			at   int64
			line uint64
		}
		var running []begun
		lines := rapid.Uint64Range(1, 30).Draw(t, "lines")
		poison := rapid.Uint64Range(0, lines-1).Draw(t, "poison")
		down0 := rapid.Bool().Draw(t, "down")
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				down0 = !down0
			case 1, 2, 3, 4:
				if _, ok := b.begin(); ok && b.open() {
					t.Fatal("an attempt begins without a turn while it is open")
				} else if ok {
					b.forget(0)
				}
				running = append(running, begun{b.try(), rapid.Uint64Range(0, lines-1).Draw(t, "line")})
			case 5: // its shard is lost
				if k := len(running); k > 0 {
					b.forget(running[k-1].at)
					running = running[:k-1]
				}
			default:
				if len(running) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				a := running[i]
				running = append(running[:i], running[i+1:]...)
				var err error
				switch {
				case down0 && rapid.IntRange(0, 4).Draw(t, "unreached") == 0:
					err = cut{} // opens it at once
				case down0 || a.line == poison:
					err = down{}
				case rapid.IntRange(0, 4).Draw(t, "broken") == 0:
					err = errors.New("broken")
				}
				wasOpen, others := b.open(), h.others(a.line)
				v := b.ended(a.at, a.line, rapid.Bool().Draw(t, "first"), err)
				switch outage := IsOutage(err); {
				case !outage && v.uncounted:
					t.Fatalf("an answer of line %d does not count", a.line)
				case !outage:
					h.answers++
					h.of[a.line]++
					delete(h.tried, a.line)
					if wasOpen && a.at%2 == 1 && b.open() && a.at == b.period.Load() {
						t.Fatal("an answer since the opening does not close it")
					}
				case wasOpen && !v.uncounted:
					t.Fatalf("an attempt of line %d counts while it is open", a.line)
				case !v.uncounted:
					if before, tried := h.tried[a.line]; !tried || others <= before {
						t.Fatalf("an attempt of line %d counts, and nobody else was answered for that", a.line)
					}
					h.tried[a.line]++
				default:
					if _, tried := h.tried[a.line]; !tried {
						h.tried[a.line] = others
					}
				}
			}
		}
		for _, a := range running {
			b.forget(a.at)
		}
		b.mu.Lock()
		probes := b.probes
		b.mu.Unlock()
		if probes != 0 {
			t.Fatalf("%d probes are under way when none is", probes)
		}
		b.attempt(99, true, nil)
		if b.open() {
			t.Fatal("it is open after an answer")
		}
	})
}
