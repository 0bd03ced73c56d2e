package ring_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/ring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var modes = []ring.Mode{ring.Anchor, ring.Table}

// inEachMode runs a test in both modes.
func inEachMode(t *testing.T, test func(t *testing.T, mode ring.Mode)) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			test(t, mode)
		})
	}
}

// join makes a member and waits until it is established; the test's end closes it.
func join(t *testing.T, reg *registry.Registry, mode ring.Mode, member string, change ...func(*ring.Config)) *ring.Ring {
	t.Helper()
	cfg := ring.Config{Registry: reg, Name: "r", Member: member, Mode: mode}
	if mode == ring.Table {
		cfg.Slots = 32
	}
	for _, f := range change {
		f(&cfg)
	}
	r, err := ring.Join(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { leave(t, r) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must(t, r.WaitEstablished(ctx))
	return r
}

func leave(t *testing.T, r *ring.Ring) {
	t.Helper()
	if err := r.Close(context.Background()); err != nil {
		t.Errorf("%s leaves: %v", r.Member(), err)
	}
}

// eventually waits until cond holds; what says what for.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !cond(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited two minutes for: %s", what)
		}
	}
}

func someKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user-%d", i)
	}
	return keys
}

// settled says whether each key has exactly one member that answers yes, the one that all name.
func settled(members []*ring.Ring, keys []string) error {
	for _, k := range keys {
		var yes []string
		for _, r := range members {
			if mine, epoch := r.ShouldHandle(k); mine {
				yes = append(yes, r.Member())
				if epoch < 1 {
					return fmt.Errorf("key %s: %s answers yes at epoch %d", k, r.Member(), epoch)
				}
			}
		}
		if len(yes) != 1 {
			return fmt.Errorf("key %s: %v answer yes; expected one member", k, yes)
		}
		for _, r := range members {
			if owner, _ := r.Owner(k); owner != yes[0] {
				return fmt.Errorf("key %s: %s takes %q for its owner; %s answers yes", k, r.Member(), owner, yes[0])
			}
			if len(r.Members()) != len(members) {
				return fmt.Errorf("%s sees %d members; expected %d", r.Member(), len(r.Members()), len(members))
			}
		}
	}
	return nil
}

func waitSettled(t *testing.T, members []*ring.Ring, keys []string) {
	t.Helper()
	var err error
	defer func() {
		if t.Failed() {
			t.Log(err)
		}
	}()
	eventually(t, "agreement of all members", func() bool { err = settled(members, keys); return err == nil })
}

func TestAllMembersAgreeOnTheOwnerOfEachKey(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, mode ring.Mode) {
		store := memregistry.NewStore()
		keys := someKeys(200)
		var members []*ring.Ring
		for i := range 4 {
			h := store.Open()
			t.Cleanup(func() { _ = h.Close() })
			members = append(members, join(t, h.Registry, mode, fmt.Sprintf("m%d", i)))
			waitSettled(t, members, keys)
		}
		leave(t, members[1])
		members = append(members[:1], members[2:]...)
		waitSettled(t, members, keys)
	})
}

func TestAMemberThatDiesIsReplacedByTheOthers(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, mode ring.Mode) {
		store := memregistry.NewStore()
		keys := someKeys(200)
		var members []*ring.Ring
		var dead *memregistry.Handle
		for i := range 3 {
			h := store.Open()
			t.Cleanup(func() { _ = h.Close() })
			if dead == nil {
				dead = h
			}
			r, err := ring.Join(t.Context(), ring.Config{Registry: h.Registry, Name: "r", Member: fmt.Sprintf("m%d", i), Mode: mode})
			must(t, err)
			defer func() { _ = r.Close(context.Background()) }() // the dead one can't say goodbye
			members = append(members, r)
		}
		waitSettled(t, members, keys)
		dead.Kill()
		waitSettled(t, members[1:], keys)
		for _, k := range keys {
			if mine, _ := members[0].ShouldHandle(k); mine {
				t.Fatalf("the killed member still answers yes for %s", k)
			}
		}
	})
}

func TestTheNewestStartOfAMemberWins(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, mode ring.Mode) {
		store := memregistry.NewStore()
		a, b := store.Open(), store.Open()
		t.Cleanup(func() { _, _ = a.Close(), b.Close() })
		first := join(t, a.Registry, mode, "m")
		_, epoch := first.ShouldHandle("k")
		second := join(t, b.Registry, mode, "m")
		<-first.Done()
		if err := first.Err(); !errors.Is(err, ring.ErrFenced) {
			t.Errorf("the first start ends with %v; want fenced", err)
		}
		if mine, _ := first.ShouldHandle("k"); mine {
			t.Error("the first start still answers yes")
		}
		eventually(t, "the second start has the key", func() bool { mine, e := second.ShouldHandle("k"); return mine && e > epoch })
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
