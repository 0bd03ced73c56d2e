package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
)

// mortal is a registry whose process dies at one of its writes: before it, or after it and before the
// answer. Then nothing of the process happens any more.
type mortal struct {
	registrydriver.Registry
	mu    sync.Mutex
	left  int // writes
	after bool
	die   context.CancelFunc
}

func (m *mortal) Apply(ctx context.Context, txns []registrydriver.Txn) ([]registrydriver.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left--; m.left > 0 {
		return m.Registry.Apply(ctx, txns)
	}
	if m.after && m.left == 0 {
		if _, err := m.Registry.Apply(ctx, txns); err != nil {
			return nil, err
		}
	}
	m.die()
	return nil, context.Canceled
}

// cutDeletion begins to delete the subscription in a process that dies at its n-th write; false: it
// came to its end before.
func cutDeletion(t *testing.T, s *stores, n int, after bool) (cut bool) {
	t.Helper()
	ctx, die := context.WithCancel(t.Context())
	defer die()
	m := &mortal{left: n, after: after, die: die}
	rf := s.openAs(t, process{registry: func(d registrydriver.Registry) registrydriver.Registry {
		m.Registry = d
		return m
	}})
	err := rf.Admin().DeleteSubscription(ctx, "billing", &admin.DeleteSubscriptionOptions{Force: true})
	if (err != nil) != (ctx.Err() != nil) {
		t.Errorf("dead: %t, the deletion: %v", ctx.Err() != nil, err)
	}
	return err != nil
}

// of is what a subscription has in the stores.
func (s *stores) of(t *testing.T, name string) (have []string) {
	t.Helper()
	reg, log := s.reg.Open(), s.log.Open()
	snap, err := reg.List(t.Context(), "")
	must(t, err)
	for _, e := range snap.Entries {
		have = append(have, e.Key)
	}
	topics, err := log.Topics(t.Context())
	must(t, err)
	for _, topic := range topics {
		have = append(have, "log: "+topic.Name)
	}
	must(t, errors.Join(log.Close(), reg.Close()))
	return slices.DeleteFunc(have, func(x string) bool { return !strings.Contains(x, name) })
}

// parked makes a subscription with a dead letter, and one that waits behind it.
func parked(t *testing.T) (*stores, *ringfence.Client) {
	t.Helper()
	s, rf := newTopic(t, 1)
	_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
	must(t, err)
	produce(t, rf, "orders", 0, 3, 1)
	var d delivered
	stop := subscribe(t, rf, "billing", d.handler(func(m *ringfence.Message) error {
		if string(m.Value) == "1" {
			return ringfence.Permanent(nil)
		}
		return nil
	}))
	eventually(t, "the dead letter", func() bool {
		letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		return err == nil && len(letters) == 2
	})
	stop()
	return s, rf
}

func TestADeletionThatIsCutAtAnyStepIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	force := &admin.DeleteSubscriptionOptions{Force: true}
	for _, after := range []bool{false, true} {
		for _, by := range []string{"deletion", "creation"} {
			t.Run(fmt.Sprintf("by a %s after: %t", by, after), func(t *testing.T) {
				t.Parallel()
				cuts := 0
				for cut := true; cut; {
					s, rf := parked(t)
					if cut = cutDeletion(t, s, cuts+1, after); cut {
						cuts++
					}
					begun := cuts > 1 || after // it was marked
					info, err := rf.Admin().GetSubscription(t.Context(), "billing")
					if gone := errors.Is(err, ringfence.ErrNotFound); gone != begun {
						t.Errorf("cut at write %d, after: %t, it is %+v, %v", cuts, after, info, err)
					}
					if by == "deletion" {
						if err := rf.Admin().DeleteSubscription(t.Context(), "billing", force); err != nil && !errors.Is(err, ringfence.ErrNotFound) {
							t.Errorf("the deletion after a cut at write %d: %v", cuts, err)
						}
						if have := s.of(t, "billing"); len(have) > 0 {
							t.Errorf("after a cut at write %d there is %q", cuts, have)
						}
						continue
					}
					old := "none"
					if info != nil {
						old = info.Group()
					}
					_, err = rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
					must(t, err)
					info, err = rf.Admin().GetSubscription(t.Context(), "billing")
					must(t, err)
					if begun == (info.Group() == old) {
						t.Errorf("cut at write %d, the group is %s, was %s", cuts, info.Group(), old)
					}
					if letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil); err != nil || (len(letters) == 0) != begun {
						t.Errorf("cut at write %d: letters %v, %v", cuts, letters, err)
					}
					set := info.Set().ID
					for _, x := range s.of(t, "billing") {
						if begun && !strings.Contains(x, set) && x != "subscriptions/billing" {
							t.Errorf("after a cut at write %d there is %q", cuts, x)
						}
					}
				}
				if cuts < 6 {
					t.Errorf("it was cut %d times; expected each step of the way", cuts)
				}
			})
		}
	}
}

func TestADeletionWithoutForceTakesNothingThatIsInUse(t *testing.T) {
	t.Parallel()
	_, rf := parked(t)
	if err := rf.Admin().DeleteSubscription(t.Context(), "billing", nil); !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("with a dead letter: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	got := newRecorder()
	go func() { ended <- rf.Subscribe(ctx, "billing", got.handle, nil) }()
	_, err := rf.Admin().RedriveDeadLetters(t.Context(), "billing", nil)
	must(t, err)
	got.waitFor(t, 2)
	eventually(t, "nothing is parked", func() bool {
		letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		return err == nil && len(letters) == 0
	})
	for _, o := range []*admin.DeleteSubscriptionOptions{nil, {DryRun: true}} {
		if err := rf.Admin().DeleteSubscription(t.Context(), "billing", o); !errors.Is(err, ringfence.ErrConflict) {
			t.Errorf("with a member: %v", err)
		}
	}
	must(t, rf.Admin().DeleteSubscription(t.Context(), "billing", &admin.DeleteSubscriptionOptions{Force: true, DryRun: true}))
	produce(t, rf, "orders", 3, 1, 1)
	got.waitFor(t, 3) // it is there

	cancel()
	must(t, <-ended)
	must(t, rf.Admin().DeleteSubscription(t.Context(), "billing", nil))
	if err := rf.Admin().DeleteSubscription(t.Context(), "billing", nil); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("once more: %v", err)
	}
	must(t, rf.Admin().DeleteTopic(t.Context(), "orders", nil))
}

func TestMembersEndWithTheirSubscription(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 2)
	_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
	must(t, err)
	produce(t, rf, "orders", 0, 10, 2)
	got := newRecorder()
	ended := make(chan error, 2)
	for range 2 {
		member := s.open(t)
		go func() { ended <- member.Subscribe(t.Context(), "billing", got.handle, nil) }()
	}
	got.waitFor(t, 10)
	must(t, rf.Admin().DeleteSubscription(t.Context(), "billing", &admin.DeleteSubscriptionOptions{Force: true}))
	told := 0 // one may begin only now
	for range 2 {
		err := <-ended
		if !errors.Is(err, ringfence.ErrNotFound) {
			t.Errorf("a member ended with %v", err)
		} else if strings.Contains(err.Error(), `subscription "billing" was deleted`) {
			told++
		}
	}
	if told == 0 {
		t.Error("no member was told that its subscription was deleted")
	}
	if have := s.of(t, "billing"); len(have) > 0 {
		t.Errorf("there is %q", have)
	}
	// The next of the name begins anew.
	_, err = rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
	must(t, err)
	subscribe(t, rf, "billing", got.handle)
	got.waitFor(t, 20)
}
