package pgregistry

import (
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// Whoever fills the table of sessions with sound ones hides no death, and takes nobody's session: what is read
// at once has a bound, and those of the processes that live come first. His own go as those of the dead do.
func TestACrowdOfSessionsHidesNobody(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	var log testlog.Buffer
	a, dead := d.open(t, driver.Options{Logger: log.Logger()}), d.open(t, driver.Options{})
	bound(t, a, time.Minute, "a")
	bound(t, dead, time.Minute, "dead")
	const crowd = limits.PostgresSessions + 1000
	execute(t, d.url, "INSERT INTO "+d.schema+".session SELECT gen_random_uuid(), 1000000 + n, '1 hour', now() + interval '1 hour' FROM generate_series(1, $1) n", crowd)
	if _, err := a.keeper.sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	peers, _ := a.keeper.view()
	if len(peers) != limits.PostgresSessions {
		t.Errorf("%d sessions were read of %d; expected %d", len(peers), crowd+2, limits.PostgresSessions)
	}
	for _, s := range []*store{a, dead} {
		if len(peers.Of(s.holder)) != 1 || slices.Contains(peers.Suspects(a.holder), s.holder) {
			t.Error("the session of a process that lives is not seen")
		}
	}
	dead.kill()
	a.keeper.poke()
	await(t, "the dead is gone, and some of the crowd", func() bool {
		snap, err := a.List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return len(snap.Entries) == 1 && log.Count("more sessions than are read at once") == 1
	})
}
