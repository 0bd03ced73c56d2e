package verify

import (
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
)

// What a storage topic had that was retired nobody knows any more. A key whose last record may have been
// there goes on with the one behind it, in the storage topic that takes new records.
func TestProducerGoesOnBehindARetiredHome(t *testing.T) {
	t.Parallel()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rf.Close() }()
	if err := rf.EnsureTopic(t.Context(), "t", ringfence.TopicConfig{Partitions: 3, RetentionAgeMS: 1}); err != nil {
		t.Fatal(err)
	}
	s := Spec{Name: "producer-1", Start: 1, Topic: "t", History: t.TempDir(), Load: &Load{Idempotent: true, Resume: true, Keys: 10, Rate: 5000, Size: minSize}}
	produceUntil(t, rf, s, 200)
	forgetAcks(t, s.path(), 5)
	r := &run{crew: &crew{rf: rf, topic: "t", tally: newTally(s.History), look: look, ended: endedEarly}, result: Result{Complete: true}, Config: Config{Faults: []string{Retire}}}
	if err := r.grow(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if err := r.retireRest(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.tellStorage()
	if r.result.Figures.Grown != 1 || r.result.Figures.Retired != 1 || len(r.notes) > 0 {
		t.Fatalf("%d added, %d retired, %q; expected one of each", r.result.Figures.Grown, r.result.Figures.Retired, r.notes)
	}
	s.Start++
	produceUntil(t, rf, s, 600)
	here, again := map[string]bool{}, 0
	err = harness.Read(s.path(), 0, func(e history.Event) {
		switch {
		case e.Kind == history.Sent && e.Storage == 0:
			again++ // it has to be told first that its home is gone
		case e.Kind == history.Produced:
			here[e.Key] = true
			if e.Storage != 1 {
				t.Errorf("record %d of %s is acknowledged in storage topic %d", e.Sequence, e.Key, e.Storage)
			}
		}
	})
	if err != nil || len(here) != 10 || again > 10 {
		t.Errorf("%v: %d keys go on, after %d more tries in the home that is gone; expected 10, and one of each at most", err, len(here), again)
	}
}
