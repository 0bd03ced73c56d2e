package ringfence_test

import (
	"testing"

	"github.com/ringfence/ringfence"
)

// Nobody has delivered a subscription yet when the storage topic is retired that it was to begin with: it was
// empty, so nothing is missed. What was ordered of it by then changes nothing.
func TestASubscriptionGoesOnBehindARetiredStorageTopic(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]func(*ringfence.Client) error{
		"nothing": func(*ringfence.Client) error { return nil },
		"reshard": func(rf *ringfence.Client) error {
			_, err := rf.Reshard(t.Context(), "billing", 3, nil)
			return err
		},
		"reset": func(rf *ringfence.Client) error {
			_, err := rf.ResetSubscription(t.Context(), "billing", ringfence.SeekEarliest, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, rf := reshardable(t, "")
			grow(t, rf, 2)
			produceKeys(t, rf, "1")
			retire(t, rf, 0)
			must(t, order(rf))
			var d delivered
			subscribe(t, rf, "billing", d.handler(fine))
			eventually(t, "all records", d.each("1"))
			follows(t, rf, "billing", 1)
			_, err := rf.Reshard(t.Context(), "billing", 1, nil)
			must(t, err)
			produceKeys(t, rf, "2")
			eventually(t, "what came after a turn", d.each("1", "2"))
			follows(t, rf, "billing", 1)
		})
	}
}

// A subscription that is made when storage topics are retired begins with the oldest that is not.
func TestASubscriptionFromTheEarliestBeginsWithWhatIsLeft(t *testing.T) {
	t.Parallel()
	s := newStores()
	rf := s.open(t)
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 4}))
	grow(t, rf, 2)
	grow(t, rf, 3)
	produceKeys(t, rf, "1")
	retire(t, rf, 1)
	d, err := rf.EnsureSubscription(t.Context(), "billing", ringfence.SubscriptionConfig{Topic: "a"})
	must(t, err)
	if set := d.Set(); set.Storage != 2 || set.Shards != 3 {
		t.Errorf("it begins with %+v", set)
	}
	var got delivered
	subscribe(t, rf, "billing", got.handler(fine))
	eventually(t, "all records", got.each("1"))
}
