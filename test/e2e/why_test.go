package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// explain asks why, and checks the state and what holds everything back.
func explain(t *testing.T, rf *ringfence.Client, name, key string, state api.KeyState, kinds ...string) *api.KeyAnswer {
	t.Helper()
	a, err := rf.Admin().ExplainKey(t.Context(), name, []byte(key))
	must(t, err)
	same := len(a.Holding) == len(kinds)
	for i := 0; same && i < len(kinds); i++ {
		same = a.Holding[i].Kind == kinds[i]
	}
	if a.State != state || !same {
		t.Errorf("%s of %s: %+v; expected %s, held back by %q", key, name, a, state, kinds)
	}
	return a
}

func TestWhyFollowsAKeyThroughASubscription(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{Retry: admin.Retry{Initial: time.Minute, Max: time.Minute, Attempts: 8}, Hold: 70 * time.Second})
		explain(t, rf, "billing", "k1", api.KeyUnknown, api.FoundNoMember) // it was never delivered
		h := func(_ context.Context, m *ringfence.Message) error {
			if string(m.Key) == "k1" {
				return errors.New("no card")
			}
			return nil
		}
		stop := subscribe(t, rf, "billing", h)
		produce(t, rf, "orders", 0, 4, 2) // offsets 1 and 3 are of k1
		time.Sleep(10 * time.Second)
		explain(t, rf, "billing", "k0", api.KeyDone)
		a := explain(t, rf, "billing", "k1", api.KeyHeld)
		if w := a.Waiting; len(w) != 1 || w[0].Offset != 1 || w[0].Records != 2 || w[0].Before != 0 || w[0].Owner == "" || w[0].Held == nil || w[0].Held.Attempts != 1 || w[0].Held.Due == "" {
			t.Errorf("held: %+v", w)
		}
		time.Sleep(2 * time.Minute)
		explain(t, rf, "billing", "k1", api.KeyParked)
		time.Sleep(10 * time.Minute)
		explain(t, rf, "billing", "k1", api.KeyDead)
		_, err := rf.Admin().PauseSubscription(t.Context(), "billing", nil)
		must(t, err)
		explain(t, rf, "billing", "k1", api.KeyDead, api.FoundPaused)
		_, err = rf.Admin().ResumeSubscription(t.Context(), "billing")
		must(t, err)
		stop()
		produce(t, rf, "orders", 0, 2, 2)
		if w := explain(t, rf, "billing", "k0", api.KeyWaiting, api.FoundNoMember).Waiting; len(w) != 1 || w[0].Owner != "" || w[0].Held != nil {
			t.Errorf("waiting: %+v", w)
		}
	})
}

func TestWhyFollowsAKeyThroughAGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, rf := newTopic(t, 1)
		c := consume(t, rf, "orders", "g", func(_ context.Context, m *ringfence.Message) error {
			if string(m.Key) == "k1" {
				return errors.New("not yet")
			}
			return nil
		}, ringfence.ConsumeOptions{})
		produce(t, rf, "orders", 0, 4, 2)
		time.Sleep(10 * time.Second)
		explain(t, rf, "g", "k0", api.KeyDone) // above the checkpoint, and finished
		a := explain(t, rf, "g", "k1", api.KeyHeld)
		if w := a.Waiting; len(w) != 1 || w[0].Offset != 1 || w[0].Records != 2 || w[0].Owner == "" || len(a.Unknown) != 0 || w[0].Held == nil || w[0].Held.Answer != "not yet" || w[0].Held.Attempts < 2 {
			t.Errorf("waiting: %+v, not known: %q", w, a.Unknown)
		}
		time.Sleep(time.Minute)
		st, err := rf.Admin().Status(t.Context())
		must(t, err)
		if f := st.Findings; len(f) != 1 || f[0].Kind != api.FoundFailing || !strings.Contains(f[0].Cause, `offset 1 of partition 0 (key "k1")`) || !strings.Contains(f[0].Cause, "not yet") {
			t.Errorf("status: %+v", f)
		}
		must(t, rf.Admin().PauseGroup(t.Context(), "g", nil))
		explain(t, rf, "g", "k1", api.KeyHeld, api.FoundPaused)
		must(t, rf.Admin().ResumeGroup(t.Context(), "g", nil))
		c.leave(t)
		explain(t, rf, "g", "k1", api.KeyWaiting, api.FoundNoMember)
		if _, err := rf.Admin().ExplainKey(t.Context(), "nope", []byte("k")); !errors.Is(err, ringfence.ErrNotFound) {
			t.Errorf("a name that is none: %v", err)
		}
	})
}
