package nemesis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/ring"
)

// A store takes a lost connection for a death within milliseconds. The member that lives on without
// one must have stopped answering yes by then, though its TTL has long not passed.
func TestNoTwoMembersOfATableRingAnswerYesWhenOneIsCutOff(t *testing.T) {
	t.Parallel()
	for _, name := range testserver.Registries(t) {
		for _, how := range []string{"refused", "swallowed"} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				c := cutRing{raw: testserver.URL(t, name), namespace: "cut-" + rand.Text()[:12]}
				c.run(t, how)
			})
		}
	}
}

// cutRing is a ring of two, one of which is behind a proxy.
type cutRing struct {
	raw, namespace string
}

const cutTTL = 3 * time.Second

func (c *cutRing) run(t *testing.T, how string) {
	proxy := testserver.NewProxy(t, c.raw)
	a, b := c.join(t, proxy.URL(c.raw), "a"), c.join(t, c.raw, "b")
	keys := make([]string, 64)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	count := func() (mine, heirs, both int) {
		for _, k := range keys {
			inB, _ := b.ShouldHandle(k)
			inA, _ := a.ShouldHandle(k)
			still, _ := b.ShouldHandle(k) // b did not lose it in between
			if inA {
				mine++
			}
			if inB {
				heirs++
			}
			if inA && inB && still {
				both++
			}
		}
		return mine, heirs, both
	}
	c.until(t, "each has a part", func() bool {
		mine, heirs, _ := count()
		return mine > 0 && heirs > 0 && mine+heirs == len(keys)
	})
	proxy.Heal()
	if how == "refused" {
		proxy.Refuse()
	} else {
		proxy.Blackhole()
	}
	began := time.Now()
	c.until(t, "b has it all", func() bool {
		mine, heirs, both := count()
		if both > 0 {
			t.Fatalf("%s after the cut both answer yes for %d keys", time.Since(began), both)
		}
		return mine == 0 && heirs == len(keys)
	})
	proxy.Heal()
	c.until(t, "a is back, or knows that it is out", func() bool {
		mine, _, both := count()
		if both > 0 {
			t.Fatalf("after the cut was healed both answer yes for %d keys", both)
		}
		return mine > 0 || errors.Is(a.Refresh(t.Context()), ring.ErrFenced)
	})
}

func (c *cutRing) join(t *testing.T, raw, member string) *ring.Ring {
	t.Helper()
	u, err := url.Parse(raw)
	must(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	at := slices.IndexFunc(backends.All(), func(b ringfence.Backend) bool { return b.Scheme == u.Scheme })
	reg, err := backends.All()[at].OpenRegistry(ctx, u, driver.Options{Namespace: c.namespace})
	must(t, err)
	t.Cleanup(func() { _ = reg.Close() })
	r, err := ring.Join(ctx, ring.Config{Registry: reg, Name: "r", Member: member, Mode: ring.Table, Slots: 8, TTL: cutTTL})
	must(t, err)
	t.Cleanup(func() {
		if err := r.Close(ctx); err != nil {
			t.Logf("%s: %v", member, err)
		}
	})
	must(t, r.WaitEstablished(ctx))
	return r
}

func (c *cutRing) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	timeout, look := time.After(time.Minute), time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !done() {
		select {
		case <-look.C:
		case <-timeout:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
