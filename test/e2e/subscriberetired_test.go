package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/testlog"
	registrypkg "github.com/ringfence/ringfence/registry"
)

// Nobody has delivered a subscription yet when the storage topic is retired that it was to begin with: it was
// empty, so nothing is missed. What was ordered of it by then changes nothing.
func TestASubscriptionGoesOnBehindARetiredStorageTopic(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]func(*ringfence.Client) error{
		"nothing": func(*ringfence.Client) error { return nil },
		"reshard": func(rf *ringfence.Client) error {
			_, err := rf.Admin().ReshardSubscription(t.Context(), "billing", 3, nil)
			return err
		},
		"reset": func(rf *ringfence.Client) error {
			_, err := rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekEarliest, nil)
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
			_, err := rf.Admin().ReshardSubscription(t.Context(), "billing", 1, nil)
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
	d, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "a"})
	must(t, err)
	if set := d.Set(); set.Storage != 2 || set.Shards != 3 {
		t.Errorf("it begins with %+v", set)
	}
	var got delivered
	subscribe(t, rf, "billing", got.handler(fine))
	eventually(t, "all records", got.each("1"))
}

// The registry has forgotten that anybody delivered, and so a storage topic was retired of which something was
// parked: it goes on behind that, and what nobody gets any more is told.
func TestWhatWasParkedOfARetiredStorageTopicIsTold(t *testing.T) {
	t.Parallel()
	var told testlog.Buffer
	s := newStores()
	rf := s.openAs(t, process{logger: told.Logger()})
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 1}))
	d, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "a"})
	must(t, err)
	_, err = rf.Produce(t.Context(), "a", ringfence.Message{Key: []byte("k0"), Value: []byte("poison")})
	must(t, err)
	stop := subscribe(t, rf, "billing", func(context.Context, *ringfence.Message) error { return ringfence.Permanent(errors.New("poison")) })
	eventually(t, "the dead letter", func() bool {
		letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		must(t, err)
		return len(letters) == 1
	})
	stop()
	reg := s.reg.Open()
	for _, prefix := range []string{"groups/" + d.Group() + "/", "checkpoints/" + d.Group() + "/"} {
		snap, err := reg.List(t.Context(), prefix)
		must(t, err)
		for _, e := range snap.Entries {
			_, err := reg.Txn(t.Context(), registrypkg.Txn{Deletes: []string{e.Key}})
			must(t, err)
		}
	}
	must(t, reg.Close())
	_, err = rf.Admin().AlterTopic(t.Context(), "a", api.Retention{AgeMS: 1, Force: true}, nil)
	must(t, err)
	grow(t, rf, 2)
	retire(t, rf, 0)
	var got delivered
	subscribe(t, rf, "billing", got.handler(fine))
	follows(t, rf, "billing", 1)
	eventually(t, "that it is told", func() bool {
		return strings.Contains(told.String(), "of which a shard had parked records") && strings.Contains(told.String(), d.Set().Journal)
	})
}
