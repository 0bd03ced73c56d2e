package registry_test

import (
	"context"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// oddStore has keys that no registry writes.
type oddStore struct {
	driver.Registry
	keys []string
}

func (s oddStore) List(context.Context, string) (driver.Snapshot, error) {
	var snap driver.Snapshot
	for _, k := range s.keys {
		snap.Entries = append(snap.Entries, driver.Entry{Key: k, Version: "1"})
	}
	return snap, nil
}

// What can't be a key can't be written or deleted either: it is named, in a few bytes, and no part of
// anything, so that a deletion, say, has not to get rid of it.
func TestWhatCanNotBeAKeyIsNoEntry(t *testing.T) {
	t.Parallel()
	keys := []string{"g/a", "g/a\x00b", "g/" + strings.Repeat("k", registry.MaxKeyBytes-2), "g/" + strings.Repeat("k", 1<<20)}
	for range 1000 {
		keys = append(keys, "g/"+strings.Repeat("z", registry.MaxKeyBytes))
	}
	snap, err := registry.New(oddStore{keys: keys}).List(t.Context(), "g/")
	if err != nil || len(snap.Entries) != 2 {
		t.Fatalf("%d entries, %v; expected the two that can be there", len(snap.Entries), err)
	}
	if len(snap.Odd) != 16 || len(snap.Odd[1]) != 64 || !strings.HasPrefix(snap.Odd[1], "g/kk") {
		t.Errorf("named are %q; expected 16 of them, by 64 bytes", snap.Odd)
	}
}
