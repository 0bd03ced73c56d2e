package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// sent sends the subscription somewhere and waits for the end of that.
func sent(t *testing.T, rf *ringfence.Client, to ringfence.SeekTarget, opts *admin.ResetSubscriptionOptions) *api.Reset {
	t.Helper()
	out, err := rf.Admin().ResetSubscription(t.Context(), "billing", to, opts)
	must(t, err)
	turned(t, rf, "billing")
	return out
}

// sums adds up what a reset does in all partitions.
func sums(r *api.Reset) (all api.ResetPosition) {
	for _, p := range r.Positions {
		all.Again, all.Skipped = all.Again+p.Again, all.Skipped+p.Skipped
		all.Anew, all.Kept, all.Dropped = all.Anew+p.Anew, all.Kept+p.Kept, all.Dropped+p.Dropped
	}
	return all
}

// poisoned fails for good on the second record of k0.
func poisoned(m *ringfence.Message) error {
	if string(m.Key) == "k0" && string(m.Value) == "2" {
		return ringfence.Permanent(errors.New("poison"))
	}
	return nil
}

// ends is where each partition of the topic ends.
func ends(t *testing.T, rf *ringfence.Client) map[int]int64 {
	t.Helper()
	out, err := rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekLatest, &admin.ResetSubscriptionOptions{DryRun: true})
	must(t, err)
	all := map[int]int64{}
	for _, p := range out.Positions {
		all[p.Partition] = p.Next
	}
	return all
}

// A subscription with a dead letter and records behind it goes back while two members deliver it. All that was
// done comes again, in order, the dead letter too.
func TestASubscriptionGoesBackWhileItIsDelivered(t *testing.T) {
	t.Parallel()
	s, rf := reshardable(t, "")
	var d delivered
	h := d.handler(poisoned)
	subscribe(t, rf, "billing", h)
	subscribe(t, s.open(t), "billing", h)
	for _, v := range []string{"1", "2", "3"} {
		produceKeys(t, rf, v)
	}
	letters := func(n int) func() bool {
		return func() bool {
			all, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
			must(t, err)
			return len(all) == n
		}
	}
	good := func(values ...string) func() bool {
		return func() bool {
			for k := 1; k < 8; k++ {
				if !slices.Equal(d.of(fmt.Sprintf("k%d", k)), values) {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "the good keys", good("1", "2", "3"))
	eventually(t, "the dead letter, and what is behind it", letters(2))
	before, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	var plan *api.Reset
	eventually(t, "that all progress is stored", func() bool {
		plan, err = rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekEarliest, &admin.ResetSubscriptionOptions{DryRun: true})
		must(t, err)
		return !slices.ContainsFunc(plan.Positions, func(p api.ResetPosition) bool { return max(0, p.From) < p.Next })
	})
	if all := sums(plan); plan.Begun || all != (api.ResetPosition{Again: 22, Anew: 2}) {
		t.Errorf("a dry run says %+v", plan)
	}
	if now, err := rf.Admin().GetSubscription(t.Context(), "billing"); err != nil || len(now.Sets) != 1 {
		t.Errorf("after dry runs: %+v, %v", now, err)
	}
	out := sent(t, rf, ringfence.SeekEarliest, nil)
	if all := sums(out); !out.Begun || all.Again != 22 || all.Anew != 2 {
		t.Errorf("it is said to do %+v", out)
	}
	eventually(t, "the good keys again", good("1", "2", "3", "1", "2", "3"))
	eventually(t, "the dead letter once more, and what is behind it", letters(2))
	now, err := rf.Admin().GetSubscription(t.Context(), "billing")
	if must(t, err); now.Set().ID == before.Set().ID || now.Set().Shards != 4 {
		t.Errorf("shard sets after it: %+v", now.Sets)
	}
	d.cure()
	_, err = rf.Admin().RedriveDeadLetters(t.Context(), "billing", nil)
	must(t, err)
	eventually(t, "the poisoned key", func() bool { return slices.Equal(d.of("k0"), []string{"1", "1", "2", "3"}) })
}

// What is parked below the place that a subscription is sent to goes along, and its key waits for it; with
// DropParked nobody gets it any more.
func TestWhatIsParkedBelowStaysInFront(t *testing.T) {
	t.Parallel()
	for _, drop := range []bool{false, true} {
		t.Run(fmt.Sprintf("dropped %t", drop), func(t *testing.T) {
			t.Parallel()
			_, rf := reshardable(t, "")
			var d delivered
			h := d.handler(poisoned)
			stop := subscribe(t, rf, "billing", h)
			for _, v := range []string{"1", "2", "3"} {
				produceKeys(t, rf, v)
			}
			eventually(t, "the dead letter, and what is behind it", func() bool {
				all, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
				must(t, err)
				return len(all) == 2
			})
			eventually(t, "the good keys", func() bool {
				return !slices.ContainsFunc([]string{"k1", "k2", "k3", "k4", "k5", "k6", "k7"}, func(key string) bool { return len(d.of(key)) < 3 })
			})
			stop()
			at := ends(t, rf)
			produceKeys(t, rf, "4")
			produceKeys(t, rf, "5")
			for p, end := range at {
				plan, err := rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekOffset(end), &admin.ResetSubscriptionOptions{Partitions: []int{p}, DropParked: drop, DryRun: true})
				must(t, err)
				if len(plan.Positions) != 1 || plan.Positions[0].To != end {
					t.Errorf("partition %d would go to %+v", p, plan.Positions)
				}
			}
			out, err := rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekLatest, &admin.ResetSubscriptionOptions{DropParked: drop})
			must(t, err)
			want := api.ResetPosition{Skipped: 16, Kept: 2}
			if drop {
				want.Kept, want.Dropped = 0, 2
			}
			if all := sums(out); all != want {
				t.Errorf("it is said to do %+v; expected %+v", all, want)
			}
			if _, err := rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekLatest, nil); !errors.Is(err, ringfence.ErrConflict) {
				t.Errorf("a second reset: %v; expected ErrConflict", err)
			}
			produceKeys(t, rf, "6")
			subscribe(t, rf, "billing", h)
			turned(t, rf, "billing")
			eventually(t, "a good key goes on behind what was passed over", func() bool { return slices.Equal(d.of("k1"), []string{"1", "2", "3", "6"}) })
			if drop {
				eventually(t, "the key that was blocked", func() bool { return slices.Equal(d.of("k0"), []string{"1", "6"}) })
				return
			}
			eventually(t, "what is new waits behind the dead letter", func() bool {
				all, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
				must(t, err)
				return len(all) == 3 && all[0].Status == api.Failed && all[2].Value == "6"
			})
			d.cure()
			_, err = rf.Admin().RedriveDeadLetters(t.Context(), "billing", nil)
			must(t, err)
			eventually(t, "the redriven key", func() bool { return slices.Equal(d.of("k0"), []string{"1", "2", "3", "6"}) })
		})
	}
}

func TestOnePartitionOfASubscriptionGoesBack(t *testing.T) {
	t.Parallel()
	_, rf := reshardable(t, "")
	var d delivered
	subscribe(t, rf, "billing", d.handler(fine))
	produceKeys(t, rf, "1")
	eventually(t, "all records", d.each("1"))
	out := sent(t, rf, ringfence.SeekOffset(0), &admin.ResetSubscriptionOptions{Partitions: []int{2}})
	produceKeys(t, rf, "2")
	eventually(t, "all records", d.last("2"))
	twice := int64(0)
	for k := range 8 {
		switch got := d.of(fmt.Sprintf("k%d", k)); {
		case slices.Equal(got, []string{"1", "1", "2"}):
			twice++
		case !slices.Equal(got, []string{"1", "2"}):
			t.Errorf("k%d came as %v", k, got)
		}
	}
	if twice != out.Positions[0].Next || len(out.Positions) != 1 {
		t.Errorf("%d keys went back; of the partition: %+v", twice, out.Positions)
	}
}

// last says whether that is the last value of each key.
func (d *delivered) last(value string) func() bool {
	return func() bool {
		for k := range 8 {
			if got := d.of(fmt.Sprintf("k%d", k)); len(got) == 0 || got[len(got)-1] != value {
				return false
			}
		}
		return true
	}
}

func TestAResetThatCantBeIsRefused(t *testing.T) {
	t.Parallel()
	_, rf := reshardable(t, "")
	one := 1
	for name, opts := range map[string]*admin.ResetSubscriptionOptions{
		"a partition that is not there": {Partitions: []int{4}}, "a storage topic that is not delivered": {Storage: &one},
	} {
		if _, err := rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekEarliest, opts); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("%s: %v; expected ErrInvalid", name, err)
		}
	}
	if _, err := rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekOffset(99), nil); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("beyond the end: %v; expected ErrInvalid", err)
	}
	if _, err := rf.Admin().ResetSubscription(t.Context(), "other", ringfence.SeekLatest, nil); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("none: %v; expected ErrNotFound", err)
	}
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	_, err = rf.Admin().SeekGroup(t.Context(), info.Group(), ringfence.SeekLatest, nil)
	if !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), "subscription reset billing") {
		t.Errorf("a seek of its group: %v; expected ErrConflict, and what to use", err)
	}
}
