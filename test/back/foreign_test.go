package back

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// A registry that does not know a subscription may be the wrong one: force alone drops no records that the log has of it.
func TestADeletionByForceWithAnotherRegistryKeepsTheJournals(t *testing.T) {
	t.Parallel()
	log := "file://" + filepath.Join(t.TempDir(), "log")
	w := newWorld(t, pasts()["file"], log, false)
	w.topic(ringfence.TopicConfig{Partitions: 2})
	w.ensure(ringfence.Earliest)
	m := w.subscribe(no)
	w.put(10)
	w.parked(10)
	must(w, m.end())
	info, err := w.rf().Admin().GetSubscription(w.Context(), subName)
	must(w, err)
	w.close()
	names := w.names()
	other := newWorld(t, pasts()["file"], log, false)
	other.config.Namespace = w.config.Namespace
	remove := func(id string) error {
		return other.rf().Admin().DeleteSubscription(t.Context(), subName, &admin.DeleteSubscriptionOptions{Force: true, ID: id})
	}
	w.refused(remove(""), ringfence.ErrConflict, info.ID, "--id")
	w.refused(remove("abcdefgh"), ringfence.ErrNotFound)
	if now := w.names(); !slices.Equal(now, names) {
		t.Fatalf("the log has %v; it had %v", now, names)
	}
	m = w.subscribe(nil)
	w.await(0, m)
	must(w, m.end())
	w.close()
	must(w, remove(info.ID))
	for _, name := range w.names() {
		if strings.Contains(name, subName) {
			t.Errorf("after the deletion by its ID the log has %s", name)
		}
	}
}
