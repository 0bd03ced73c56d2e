package pgregistry

import (
	"testing"

	"pgregory.net/rapid"
)

func TestEveryProcessIsWaitedForByOneOther(t *testing.T) {
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
			w := successor(peers, h)
			if w == h {
				t.Fatalf("process %d waits for itself", h)
			}
			waited[w]++
		}
		for _, h := range holders {
			if want := min(1, len(holders)-1); waited[h] != want {
				t.Fatalf("%d processes of %d wait for process %d; expected %d", waited[h], len(holders), h, want)
			}
		}
		if w := successor(peers, 1<<63-1); w == 0 { // it has no session, and waits all the same
			t.Fatal("a process that only watches waits for nobody")
		}
	})
}

func TestSessionsOfAProcess(t *testing.T) {
	t.Parallel()
	m := newMint()
	a, b, c := m.next(), m.next(), m.next()
	got := sessionsOf([]peer{{session: a, holder: 1}, {session: b, holder: 2}, {session: c, holder: 1}}, 1)
	if len(got) != 2 || got[0] != a || got[1] != c {
		t.Errorf("got %v", got)
	}
}

func TestThoseWithoutTheirLockAreSuspects(t *testing.T) {
	t.Parallel()
	got := suspects([]peer{{holder: 1, held: true}, {holder: 2}, {holder: 3}, {holder: 2}, {}}, 3)
	if len(got) != 1 || got[0] != 2 {
		t.Errorf("got %v; expected process 2 only, once", got)
	}
}
