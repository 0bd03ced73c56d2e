package fileregistry

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
)

// A transaction may be in the name of several sessions: each of them has to be alive by its word,
// also when the journal does not know yet that it is over.
func TestEachSessionOfATransactionIsAlive(t *testing.T) {
	for name, over := range map[string]func(slot word, tag uint64){
		"declared dead":        declareDead,
		"of another's slot":    func(slot word, tag uint64) { slot.Store((tag ^ 2) << tagShift) },
		"of nobody's slot":     func(slot word, _ uint64) { slot.Store(0) },
		"of a dead one's slot": func(slot word, tag uint64) { slot.Store((tag^2)<<tagShift | dead) },
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, func(t *testing.T, a, b *store) {
				x, y := opened(t, a, time.Minute), opened(t, a, time.Minute)
				sessionsOf(t, b)
				over(a.ctl.slot(y.info.slot), y.info.tag)
				for _, ids := range [][]string{{x.ID(), y.ID()}, {y.ID(), x.ID()}, {"", y.ID()}} {
					txn := registry.Txn{Puts: []registry.Put{{Key: "1", Session: ids[0]}, {Key: "2", Session: ids[1]}}}
					if _, err := registry.New(b).Txn(t.Context(), txn); !errors.Is(err, fault.Fenced) {
						t.Errorf("in the name of %q: %v; expected to be fenced", ids, err)
					}
				}
				if got := content(t, registry.New(b)); got != "" {
					t.Errorf("what was refused is there: %s", got)
				}
			})
		})
	}
}

func aWord(v uint64) word {
	w := word{Uint64: new(atomic.Uint64)}
	w.Uint64.Store(v)
	return w
}

// After eight million renewals the counter begins anew, and the session is the same.
func TestAHeartbeatNeverRunsIntoItsTag(t *testing.T) {
	t.Parallel()
	const tag = 0xabcdef0123
	w := aWord(tag<<tagShift | (1<<tagShift - beat))
	for beats := range 3 {
		if !renew(w, tag) || !tagged(w.Load(), tag) || w.Load()&dead != 0 {
			t.Fatalf("after %d more renewals the word is %x, expected that of session %x, alive", beats+1, w.Load(), tag)
		}
	}
}

// Whoever ends a session late may find its slot given to another one.
func TestOnlyTheSessionThatIsMeantIsBuried(t *testing.T) {
	t.Parallel()
	w := aWord(5<<tagShift | 8)
	if declareDead(w, 4); w.Load() != 5<<tagShift|8 {
		t.Errorf("the session of another tag has the word %x now", w.Load())
	}
	if declareDead(w, 5); w.Load() != 5<<tagShift|8|dead {
		t.Errorf("the session that was meant has the word %x now", w.Load())
	}
}

func TestANonceIsNeverTheLastOneAndNeverZero(t *testing.T) {
	t.Parallel()
	draws := []uint32{0, 9, 0, 9, 7}
	n := drawNonce(9, func() uint32 { d := draws[0]; draws = draws[1:]; return d })
	if n != 7 || len(draws) != 0 {
		t.Errorf("it is %d, with %v left; expected the first that is neither 0 nor the last one", n, draws)
	}
}

// While one process begins a generation, others read all that was acked, at each of its steps.
func TestAGenerationIsInForceOnlyWhenItIsThere(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	reader := registry.New(mustStore(t, mem.Process()))
	var acked, looks atomic.Int64
	var look atomic.Bool
	fsys := vfs.Inject(mem.Process(), func(op *vfs.Op) error {
		if !look.Load() || !strings.Contains(op.Name, "journal-") || op.Kind != vfs.OpWrite && op.Kind != vfs.OpSync {
			return nil
		}
		n := int(acked.Load())
		if got := content(t, reader); got != model(n) && got != model(n+1) {
			t.Errorf("before a %s of %s at %d, %d acked: others read %s", op.Kind, op.Name, op.Offset, n, got)
		}
		looks.Add(1)
		return nil
	})
	s := mustStore(t, fsys)
	look.Store(true)
	first := s.ctl.gen.Load()
	for i := 1; i <= 40; i++ {
		if _, err := registry.New(s).Txn(t.Context(), step(i)); err != nil {
			t.Fatal(err)
		}
		acked.Store(int64(i))
	}
	look.Store(false)
	if n := s.ctl.gen.Load() - first; n < 3 || looks.Load() < 50 {
		t.Errorf("%d generations were begun, and %d times it was looked", n, looks.Load())
	}
}
