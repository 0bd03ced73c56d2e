package pgregistry

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// oddSessions are what somebody else may have written into the row of a session.
func oddSessions() map[string]string {
	return map[string]string{
		"for ever":            "'1 s', 'infinity'",
		"for ever backwards":  "'1 s', '-infinity'",
		"the year 290000":     "'1 s', '290000-01-01'",
		"before all years":    "'1 s', '4000-01-01 BC'",
		"longer than allowed": "'1 s', now() + interval '25 hours'",
		"a lease for ever":    "'170000000 years', 'infinity'",
	}
}

// A row that none of ours wrote ends no sweep, hides no session, and does not live for ever; it is named once.
func TestASessionThatNoneOfUsOpenedIsEndedAndTheOthersAreSeen(t *testing.T) {
	t.Parallel()
	for name, set := range oddSessions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newStore(t, testserver.URL(t, "postgres"))
			var log testlog.Buffer
			dead := d.open(t, driver.Options{})
			bound(t, dead, time.Minute, "dead")
			a, b := d.open(t, driver.Options{Logger: log.Logger()}), d.open(t, driver.Options{})
			bound(t, a, time.Minute, "a")
			bound(t, b, time.Minute, "b")
			put(t, a, "odd", "")
			x := id{newIDSource().next()}.text()
			execute(t, d.url, "INSERT INTO "+d.schema+".session VALUES ($1::uuid, 0, "+set+")", x)
			execute(t, d.url, "UPDATE "+d.schema+".entry SET session = $1::uuid WHERE key = 'odd'", x)
			dead.kill() // noticed although that row is there
			a.keeper.poke()
			await(t, "what belongs to the dead and to nobody is gone", func() bool {
				snap, err := a.List(t.Context(), "")
				if err != nil {
					t.Fatal(err)
				}
				return len(snap.Entries) == 2 && snap.Entries[0].Key == "a" && snap.Entries[1].Key == "b"
			})
			if n := log.Count(x); n > 1 {
				t.Errorf("it is named %d times", n)
			}
		})
	}
}

// One that only looks ends it too: nobody else may come for long. Who ends one says which.
func TestWhoOnlyLooksEndsASessionThatNoneOfUsOpened(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	odd := d.open(t, driver.Options{})
	x := bound(t, odd, time.Minute, "odd")
	odd.kill()
	execute(t, d.url, "ALTER TABLE "+d.schema+".session ALTER expires DROP NOT NULL")
	for _, expires := range []string{"'infinity'", "NULL"} {
		execute(t, d.url, fmt.Sprintf("INSERT INTO %s.session VALUES ($1::uuid, 0, '1 s', %s) ON CONFLICT (id) DO UPDATE SET expires = %[2]s", d.schema, expires), x.ID())
		var log testlog.Buffer
		s := d.open(t, driver.Options{Logger: log.Logger()})
		if e := get(t, s, "odd"); e.Version != "" || log.Count(x.ID()) != 1 {
			t.Errorf("expires %s: the entry has version %q, and the session is named %d times", expires, e.Version, log.Count(x.ID()))
		}
	}
}

// A schema without a row that it has since it was made is damaged, and told what puts it back.
func TestASchemaThatLacksARowIsDamaged(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	put(t, d.open(t, driver.Options{}), "k", "v")
	for _, damage := range []string{".format", ".change WHERE slot = 7"} {
		execute(t, d.url, "DELETE FROM "+d.schema+damage)
		s, err := open(t.Context(), Config{URL: d.url, Schema: d.schema})
		if err == nil {
			_ = s.Close()
		}
		_, mends, _ := strings.Cut(fmt.Sprint(err), "run ")
		if mends, _, _ = strings.Cut(mends, ": "); !errors.Is(err, fault.Corrupt) || !strings.HasPrefix(mends, "INSERT INTO ") {
			t.Fatalf("without %s: %v; expected that it is damaged, and what mends it", damage, err)
		}
		execute(t, d.url, mends)
		d.open(t, driver.Options{})
	}
}
