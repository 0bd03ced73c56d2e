package backends_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/internal/testserver"
)

func TestMain(m *testing.M) {
	testserver.Waiting()
	goleak.VerifyTestMain(m)
}

func TestOpenNamesTheBackendsForAnUnknownScheme(t *testing.T) {
	t.Parallel()
	for _, b := range backends.All() {
		c := ringfence.Config{Dir: t.TempDir(), Registry: b.Scheme + "://rf:secret@db/rf"}
		if b.OpenLog != nil {
			c.Log, c.Registry = c.Registry, ""
		}
		_, err := ringfence.Open(t.Context(), c)
		if !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), "unknown scheme") || !strings.Contains(err.Error(), "backends.All()") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v; expected ErrInvalid that names backends.All(), and no password", b.Scheme, err)
		}
	}
}

// Each scheme stands once, opens one kind of store, and is known where messages hide secrets.
func TestSchemesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{"file": true, "mem": true}
	for _, b := range backends.All() {
		if seen[b.Scheme] || (b.OpenLog == nil) == (b.OpenRegistry == nil) {
			t.Errorf("scheme %q: twice %v, opens logs %v, registries %v", b.Scheme, seen[b.Scheme], b.OpenLog != nil, b.OpenRegistry != nil)
		}
		seen[b.Scheme] = true
		if storeurl.Redact(&url.URL{Scheme: b.Scheme, Opaque: "secret"}) == "…" {
			t.Errorf("add scheme %q to schemes in internal/storeurl/redact.go", b.Scheme)
		}
	}
	all := backends.All()
	all[0].Scheme = "changed"
	if backends.All()[0].Scheme == "changed" {
		t.Error("a change of the slice changes the list")
	}
}
