package backends_test

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Who gives the URL of a store without its client is told what to write, for each store there is.
func TestAStoreWithoutItsClientIsNamed(t *testing.T) {
	t.Parallel()
	names := map[string]string{
		"pulsar": "commitlog/pulsarlog", "pulsar+ssl": "ringfence-pulsar", "oracle": "registry/sqlregistry/oracle",
	}
	for _, b := range backends.All() {
		names[b.Scheme] = "backends.All()"
	}
	for scheme, want := range names {
		c := ringfence.Config{Dir: t.TempDir(), Registry: scheme + "://rf:secret@db/rf"}
		if scheme == "kafka" || strings.HasPrefix(scheme, "pulsar") {
			c.Log, c.Registry = c.Registry, ""
		}
		_, err := ringfence.Open(t.Context(), c)
		if !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v; expected ErrInvalid that names %s, and no password", scheme, err, want)
		}
	}
	_, err := ringfence.Open(t.Context(), ringfence.Config{Log: "kafak://h1:9092"})
	if !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), `unknown scheme "kafak"`) || strings.Contains(err.Error(), "backends.All()") {
		t.Errorf("a scheme that nobody has: %v", err)
	}
}

// Each scheme stands once, and opens one kind of store.
func TestSchemesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{"file": true, "mem": true}
	for _, b := range backends.All() {
		if seen[b.Scheme] || (b.OpenLog == nil) == (b.OpenRegistry == nil) {
			t.Errorf("scheme %q: twice %v, opens logs %v, registries %v", b.Scheme, seen[b.Scheme], b.OpenLog != nil, b.OpenRegistry != nil)
		}
		seen[b.Scheme] = true
	}
	all := backends.All()
	all[0].Scheme = "changed"
	if backends.All()[0].Scheme == "changed" {
		t.Error("who changes the slice changes everybody's")
	}
}
