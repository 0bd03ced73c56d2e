package pgregistry

import (
	"testing"

	"pgregory.net/rapid"
)

func TestEveryProcessIsWaitedForByTwoOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		holders := rapid.SliceOfNDistinct(rapid.Int64Range(1, 1<<62), 1, 12, rapid.ID).Draw(t, "holders")
		var peers []peer
		m := newMint()
		for _, h := range holders {
			for range rapid.IntRange(1, 3).Draw(t, "sessions") {
				peers = append(peers, peer{session: m.next(), holder: h})
			}
		}
		peers = append(peers, peer{session: m.next()}) // behind a proxy: nobody can wait for it
		waited := map[int64]int{}
		for _, h := range holders {
			seen := map[int64]bool{}
			for place := range vigils {
				w := ward(peers, h, place)
				if w == h || w != 0 && seen[w] {
					t.Fatalf("process %d waits for %d in place %d, after %v", h, w, place, seen)
				}
				if w != 0 {
					seen[w] = true
					waited[w]++
				}
			}
		}
		for _, h := range holders {
			if want := min(vigils, len(holders)-1); waited[h] != want {
				t.Fatalf("%d processes of %d wait for process %d; expected %d", waited[h], len(holders), h, want)
			}
		}
		if len(holders) > 1 { // one that only watches waits for somebody too
			if w := ward(peers, 1<<63-1, 0); w == 0 {
				t.Fatal("a process without a session waits for nobody")
			}
		}
	})
}

func TestSessionsOfAProcess(t *testing.T) {
	t.Parallel()
	m := newMint()
	a, b, c := m.next(), m.next(), m.next()
	got := sessionsOf([]peer{{a, 1}, {b, 2}, {c, 1}}, 1)
	if len(got) != 2 || got[0] != a || got[1] != c {
		t.Errorf("got %v", got)
	}
}
