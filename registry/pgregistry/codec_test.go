package pgregistry

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/registry/driver"
)

func TestANotificationNamesTheKeysOrAllOfThem(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.StringN(1, 60, 512), 0, 300).Draw(t, "keys")
		b := &batch{keys: keys}
		payload := b.payload()
		if len(payload) >= 8000 {
			t.Fatalf("%d bytes; the server takes fewer than 8000", len(payload))
		}
		sessions, got, all := heard(payload)
		if sessions || !all && !slices.Equal(got, keys) {
			t.Fatalf("heard %t, %q, %t of %q", sessions, got, all, keys)
		}
		if all && len(strings.Join(keys, "")) < 5000 {
			t.Fatalf("%d keys were not named", len(keys))
		}
	})
	if sessions, keys, all := heard("s "); !sessions || keys != nil || all {
		t.Errorf("a session that was opened: %t, %q, %t", sessions, keys, all)
	}
	if sessions, _, all := heard("s *"); !sessions || !all {
		t.Errorf("sessions with many entries that ended: %t, %t", sessions, all)
	}
	if sessions, _, all := heard("?? not for us"); !sessions || !all {
		t.Errorf("what a newer program says must not be overheard: %t, %t", sessions, all)
	}
}

func TestIDsAreDistinctAndKeepTheirText(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range []*idSource{newIDSource(), newIDSource()} {
		for range 1000 {
			x := m.next()
			text := id{x}.text()
			if back, ok := parse(text); !ok || back != x || seen[text] {
				t.Fatalf("%s came back as %v, or a second time", text, back)
			}
			seen[text] = true
		}
	}
	for _, bad := range []string{"", "1' OR '1'='1", strings.Repeat("x", 32), strings.Repeat("0", 31)} {
		if _, ok := parse(bad); ok {
			t.Errorf("%q passes for an ID", bad)
		}
		if x := expected(driver.Version(bad)); bad != "" && x != noID() || bad == "" && x.Valid {
			t.Errorf("%q is expected as %v", bad, x)
		}
	}
}

func TestOnlyIndependentCheckpointsTakeTheShortWay(t *testing.T) {
	t.Parallel()
	v := driver.Version(id{newIDSource().next()}.text())
	one := func(change func(*driver.Txn)) driver.Txn {
		txn := driver.Txn{Quiet: true, Checks: []driver.Check{{Key: "owner", Version: v}}, Puts: []driver.Put{{Key: "checkpoint"}}}
		change(&txn)
		return txn
	}
	same := func(*driver.Txn) {}
	second := one(func(x *driver.Txn) { x.Puts[0].Key = "other" })
	for name, c := range map[string]struct {
		txns []driver.Txn
		want bool
	}{
		"a checkpoint":               {[]driver.Txn{one(same)}, true},
		"two under one owner":        {[]driver.Txn{one(same), second}, true},
		"one that follows another":   {[]driver.Txn{one(func(x *driver.Txn) { x.Checks = append(x.Checks, driver.Check{Key: "checkpoint", Version: v}) })}, true},
		"the first one":              {[]driver.Txn{one(func(x *driver.Txn) { x.Checks = append(x.Checks, driver.Check{Key: "checkpoint"}) })}, false},
		"the same key twice":         {[]driver.Txn{one(same), one(same)}, false},
		"a check of what is written": {[]driver.Txn{one(same), one(func(x *driver.Txn) { x.Checks[0].Key, x.Puts[0].Key = "checkpoint", "other" })}, false},
		"a check of absence":         {[]driver.Txn{one(func(x *driver.Txn) { x.Checks[0].Version = "" })}, false},
		"a check of a third key":     {[]driver.Txn{one(func(x *driver.Txn) { x.Checks = append(x.Checks, driver.Check{Key: "third", Version: v}) })}, false},
		"a bound put":                {[]driver.Txn{one(func(x *driver.Txn) { x.Puts[0].Session = "s" })}, false},
		"one that is to be told":     {[]driver.Txn{one(func(x *driver.Txn) { x.Quiet = false })}, false},
		"a delete":                   {[]driver.Txn{one(func(x *driver.Txn) { x.Deletes = []string{"k"} })}, false},
		"no check":                   {[]driver.Txn{one(func(x *driver.Txn) { x.Checks = nil })}, false},
	} {
		if got := plain(c.txns); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestLargeCallsAreDivided(t *testing.T) {
	t.Parallel()
	large := driver.Txn{Puts: []driver.Put{{Value: make([]byte, 1<<20)}}}
	for n, want := range map[int]int{1: 1, 8: 8, 9: 8, 100: 8} {
		if got := chunk(slices.Repeat([]driver.Txn{large}, n)); got != want {
			t.Errorf("%d of 1 MB: %d in one request, expected %d", n, got, want)
		}
	}
	if got := chunk(make([]driver.Txn, 5000)); got != chunkTxns {
		t.Errorf("5000 small ones: %d in one request", got)
	}
	huge := driver.Txn{Puts: slices.Repeat([]driver.Put{large.Puts[0]}, 20)}
	if got := chunk([]driver.Txn{huge, huge}); got != 1 {
		t.Errorf("one that is larger than a request by itself: %d", got)
	}
}
