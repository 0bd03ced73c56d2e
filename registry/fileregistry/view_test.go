package fileregistry

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// seen is what a view has.
func seen(t *testing.T, v *View) map[string]string {
	t.Helper()
	all := map[string]string{}
	for key, value := range v.Entries() {
		all[key] = string(value)
	}
	return all
}

func TestViewFollowsALiveRegistryAndReadsAClosedOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := Open(t.Context(), Config{Dir: dir, space: tiny})
	must(t, err)
	put := func(key, value string) {
		t.Helper()
		_, err := r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: key, Value: []byte(value)}}})
		must(t, err)
	}
	put("a", "1")
	live, err := Look(t.Context(), Config{Dir: dir})
	must(t, err)
	for i := range 100 { // through generations
		put("b", string(make([]byte, 200+i)))
	}
	put("b", "2")
	must(t, live.Refresh())
	want := map[string]string{"a": "1", "b": "2"}
	if got := seen(t, live); live.alone || !reflect.DeepEqual(got, want) {
		t.Errorf("alone %t, %q; expected %q", live.alone, got, want)
	}
	_, err = r.OpenSession(t.Context(), time.Minute)
	must(t, err)
	must(t, live.Refresh())
	if n := live.Report(); n.Sessions != 1 || n.Entries != 2 {
		t.Errorf("%+v", n)
	}
	versions, err := r.List(t.Context(), "")
	must(t, err)
	files := live.Files()
	must(t, live.Close())
	must(t, r.Close())

	closed, err := Look(t.Context(), Config{Dir: dir})
	must(t, err)
	if got := seen(t, closed); !closed.alone || !reflect.DeepEqual(got, want) {
		t.Errorf("alone %t, %q; expected %q", closed.alone, got, want)
	}
	must(t, closed.Close())

	// The files are a registry with the same versions, and without the session.
	again := filepath.Join(t.TempDir(), "again")
	must(t, os.Mkdir(again, 0o700))
	must(t, os.Mkdir(filepath.Join(again, dirName), 0o700))
	for name, b := range files {
		must(t, os.WriteFile(filepath.Join(again, name), b, 0o600))
	}
	copied, err := Look(t.Context(), Config{Dir: again})
	must(t, err)
	must(t, copied.Close())
	r, err = Open(t.Context(), Config{Dir: again})
	must(t, err)
	now, err := r.List(t.Context(), "")
	must(t, err)
	if !reflect.DeepEqual(now.Entries, versions.Entries) {
		t.Errorf("%v; expected %v", now.Entries, versions.Entries)
	}
	must(t, r.Close())
	view, err := Look(t.Context(), Config{Dir: again})
	must(t, err)
	if n := view.Report().Sessions; n != 0 {
		t.Errorf("%d sessions of the old directory are left", n)
	}
	must(t, view.Close())
}

func TestViewNamesDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := Open(t.Context(), Config{Dir: dir, space: tiny})
	must(t, err)
	for range 20 {
		_, err := r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "a", Value: []byte("some value that is long enough")}}})
		must(t, err)
	}
	must(t, r.Close())
	for i := range uint64(2) {
		name := filepath.Join(dir, dirName, journalName(i))
		b, err := os.ReadFile(name)
		must(t, err)
		for at := pageSize; at < len(b); at += 50 {
			if b[at] != 0 {
				b[at] ^= 1
			}
		}
		must(t, os.WriteFile(name, b, 0o600))
	}
	if v, err := Look(t.Context(), Config{Dir: dir}); !errors.Is(err, fault.Corrupt) {
		t.Errorf("%v, %v; expected damage", v, err)
	}
	if _, err := Look(t.Context(), Config{Dir: t.TempDir()}); !errors.Is(err, fault.NotFound) {
		t.Errorf("%v; expected that there is none", err)
	}
}
