package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/subscription/core"
)

// claim appends records to the journal of the only shard as the owner of an epoch above all others.
func claim(t *testing.T, journal *commitlog.Topic, info *api.Subscription, records ...core.Record) {
	t.Helper()
	by := core.Tenure{Epoch: 1 << 45, Run: 1, Token: 1}
	fence(t, journal, info, by)
	for i := range records {
		r := &records[i]
		r.Set, r.By, r.Seq = info.Set().ID, by, uint64(2+i)
		_, err := journal.Append(t.Context(), 0, []commitlog.Record{{Key: r.Key, Value: []byte("forged"), Headers: []commitlog.Header{{Name: "ringfence-parked", Value: core.Encode(r, r.Key)}}}}, nil)
		must(t, err)
	}
}

// has says whether the journal has a record of a kind.
func has(t *testing.T, journal *commitlog.Topic, kind core.Kind) bool {
	t.Helper()
	recs, _, err := journal.Read(t.Context(), 0, 0, nil, nil)
	must(t, err)
	return slices.ContainsFunc(recs, func(r commitlog.Record) bool {
		got, err := core.Decode(r.Headers[len(r.Headers)-1].Value, r.Key)
		must(t, err)
		return got.Kind == kind
	})
}

// inOrder says whether just these records of a key were handled.
func (r *recorder) inOrder(t *testing.T, key string, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.byKey[key], want) {
		t.Errorf("of key %s %v were handled; expected %v", key, r.byKey[key], want)
	}
}

// deadBeyond is a dead letter in the place of the record after the next.
var deadBeyond = core.Record{
	Kind: core.Dead, Key: []byte("k1"), ID: core.ID{Origin: core.Origin{Offset: 5}}, Attempts: 1, Reason: core.Attempts, Blocking: true,
}

// knowing is a subscription of four records whose journal has one more.
func knowing(t *testing.T, r core.Record) (*ringfence.Client, *commitlog.Topic) {
	t.Helper()
	s, rf := newTopic(t, 1)
	info, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
	must(t, err)
	journal := raw(t, s, rf, info.Set().Journal)
	produce(t, rf, "orders", 0, 4, 2)
	claim(t, journal, info, r)
	return rf, journal
}

// A log that went back, or a stranger, has the journal know records that the partition has not got.
func TestAJournalThatKnowsRecordsBeyondTheEndHidesNone(t *testing.T) {
	t.Parallel()
	rf, _ := knowing(t, core.Record{Kind: core.Known, Key: []byte("k1"), ID: core.ID{Origin: core.Origin{Offset: 6}}})

	got := newRecorder()
	stop := subscribe(t, rf, "billing", got.handle)
	got.waitFor(t, 4)
	stop() // an heir reads the journal when the partition has grown to it
	produce(t, rf, "orders", 4, 4, 2)
	subscribe(t, rf, "billing", got.handle)
	got.waitFor(t, 8)
	got.inOrder(t, "k0", "0", "2", "4", "6")
	got.inOrder(t, "k1", "1", "3", "5", "7")
}

// What is parked under the place of a record that is still to come is not mistaken for it.
func TestADeadLetterBeyondTheEndTakesTheIdentityOfNoRecord(t *testing.T) {
	t.Parallel()
	rf, journal := knowing(t, deadBeyond)

	got := newRecorder()
	stop := subscribe(t, rf, "billing", got.handle)
	eventually(t, "the end of the partition in the journal", func() bool { return has(t, journal, core.Ends) })
	stop()
	produce(t, rf, "orders", 4, 4, 2)
	subscribe(t, rf, "billing", got.handle)
	select {
	case <-got.more:
		t.Fatalf("%d records were handled while somebody has to decide about what is in the place of one", got.count())
	case <-time.After(2 * time.Second):
	}
	letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
	must(t, err)
	if len(letters) == 0 {
		t.Fatal("there is no dead letter")
	}
	n, err := rf.Admin().DiscardDeadLetters(t.Context(), "billing", &admin.DeadLetterOptions{IDs: []string{letters[0].ID}})
	if err != nil || n != 1 {
		t.Fatalf("%d dead letters are discarded, %v", n, err)
	}
	got.waitFor(t, 8)
	got.inOrder(t, "k0", "0", "2", "4", "6")
	got.inOrder(t, "k1", "1", "3", "5", "7")
}

// A shard that waits for somebody to decide about such a record ends for a reset all the same.
func TestAResetMendsAJournalThatKnowsRecordsBeyondTheEnd(t *testing.T) {
	t.Parallel()
	rf, journal := knowing(t, deadBeyond)

	got := newRecorder()
	subscribe(t, rf, "billing", got.handle)
	eventually(t, "the end of the partition in the journal", func() bool { return has(t, journal, core.Ends) })
	_, err := rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekEarliest, nil)
	must(t, err)
	produce(t, rf, "orders", 4, 4, 2)
	got.waitFor(t, 8)
	got.inOrder(t, "k0", "0", "2", "4", "6")
	got.inOrder(t, "k1", "1", "3", "5", "7")
}
