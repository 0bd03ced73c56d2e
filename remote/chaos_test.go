package remote_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/remote"
)

// receiver is what clients write to: it refuses stale tokens, and sees records that are skipped.
type receiver struct {
	mu     sync.Mutex
	next   map[string]int
	tokens map[string]string
	left   int
	all    func() // called when nothing is left
	wrong  error
}

// take handles a record; false: it is to be tried again.
func (r *receiver) take(l line) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, err := strconv.Atoi(l.Value)
	if l.Token < r.tokens[l.Key] {
		return false // of an owner that has lost it
	}
	if err != nil || v > r.next[l.Key] {
		r.wrong = errors.Join(r.wrong, fmt.Errorf("key %s: value %q comes, and %d was never done", l.Key, l.Value, r.next[l.Key]))
	}
	r.tokens[l.Key] = l.Token
	if v == r.next[l.Key] {
		r.next[l.Key]++
		if r.left--; r.left == 0 {
			r.all()
		}
	}
	return true
}

// consume is one life of a client: it reads, answers, and ends somehow after some records.
func consume(ctx context.Context, h *remote.Hub, p remote.Params, r *receiver, rnd *rand.Rand, records int) error {
	s, err := h.Open(ctx, p)
	if err != nil {
		return err
	}
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	handle := func(lines []line) {
		body := ""
		for _, l := range lines {
			if l.Type != "record" {
				for _, n := range l.Records { // void: answered like what was not begun
					body += fmt.Sprintf(`,"released":[%d]`, n)
					body = answer(s, l.N, body)
				}
				body = answer(s, l.N, body)
				continue
			}
			switch records--; {
			case records < 0:
				cut()
				return
			case rnd.IntN(20) == 0:
				body = answer(s, l.N, fmt.Sprintf(`,"released":[%d]`, l.N))
			case rnd.IntN(20) == 0 || !r.take(l):
				body = answer(s, l.N, fmt.Sprintf(`,"failed":[{"n":%d,"error":"no","retry_ms":1}]`, l.N))
			default:
				body = answer(s, l.N, fmt.Sprintf(`,"done":[%d]`, l.N))
			}
		}
	}
	if !p.Paged {
		return s.Stream(ctx, func(b []byte) error {
			handle(parseAll(b))
			return ctx.Err()
		})
	}
	for after := int64(0); ctx.Err() == nil; {
		b, err := s.Page(ctx, after, s.Params().TTL/3)
		if err != nil {
			return err
		}
		lines := parseAll(b)
		handle(lines)
		if len(lines) > 0 {
			after = lines[len(lines)-1].N
		}
	}
	return s.Delete()
}

// answer sends a body; what it returns is not used again.
func answer(s *remote.Session, seen int64, body string) string {
	_, _ = s.Answer(fmt.Appendf(nil, `{"seen":%d%s}`, seen, body)) // a session that is over says so when it is read
	return ""
}

// Clients come, go, die and answer somehow, in two processes; nothing is skipped, and all is done in the end.
func TestClientsThatComeAndGoSkipNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []remote.Params{{Group: "g", Topic: "orders"}, {Subscription: "billing"}} {
		t.Run(kind.Group+kind.Subscription, func(t *testing.T) {
			t.Parallel()
			const n, clients = 20, 4
			rf, one := open(t, 3)
			two := rf.Remote("p2")
			defer shut(two)
			keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
			produce(t, rf, n, keys...)
			subscribe(t, rf, 1<<20)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r := &receiver{next: map[string]int{}, tokens: map[string]string{}, left: n * len(keys), all: cancel}
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(7, uint64(i)))
					for ctx.Err() == nil {
						p := kind
						p.Window, p.Paged = 1+rnd.IntN(8), rnd.IntN(3) == 0
						hub := []*remote.Hub{one, two}[rnd.IntN(2)]
						err := consume(ctx, hub, p, r, rnd, rnd.IntN(40))
						if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ringfence.ErrNotFound) {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if r.wrong != nil || r.left > 0 {
				t.Fatalf("%d records are left: %v", r.left, r.wrong)
			}
		})
	}
}
