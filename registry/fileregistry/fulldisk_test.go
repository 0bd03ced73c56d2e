package fileregistry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
)

// steady is a transaction that makes the content no larger, as a claim or a checkpoint does.
func steady(i int, session string) registry.Txn {
	n := fmt.Appendf(nil, "%06d", i)
	return registry.Txn{Puts: []registry.Put{{Key: "owner", Value: n, Session: session}, {Key: "checkpoint", Value: n}}}
}

// pages opens a store whose generations have room for a few pages, as the snapshot takes at least one.
func pages(t *testing.T, fsys vfs.FS) *store {
	t.Helper()
	s, err := open(t.Context(), Config{FS: fsys, space: 3 * pageSize})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// goesOnFull claims and writes checkpoints, through several generations, and returns the versions.
func goesOnFull(t *testing.T, s *store, rounds int) (given []registry.Version) {
	t.Helper()
	r := registry.New(s)
	x, err := r.OpenSession(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	from := s.ctl.gen.Load()
	for i := 0; i < rounds || s.ctl.gen.Load() < from+3; i++ {
		v, err := r.Txn(t.Context(), steady(i, x.ID()))
		if err != nil {
			t.Fatalf("transaction %d on a full disk: %v", i, err)
		}
		given = append(given, v...)
		if i > 1000 {
			t.Fatal("the journal never began anew")
		}
	}
	return given
}

// Whatever the registry has come to when the disk gets full, whoever is restarted on it goes on: it
// finds everything, claims and writes checkpoints, and so does its successor.
func TestWhoIsRestartedOnAFullDiskGoesOn(t *testing.T) {
	t.Parallel()
	for steps := 0; steps < 160; steps += 4 {
		mem := vfs.NewMem(uint64(steps))
		seen := map[registry.Version]bool{}
		dies := func(fsys *vfs.Mem, s *store, given []registry.Version) {
			for _, v := range given {
				if seen[v] {
					t.Fatalf("after %d steps: version %q was given out again", steps, v)
				}
				seen[v] = true
			}
			fsys.Kill()
			s.Close()
		}
		p := mem.Process()
		s := pages(t, p)
		x := opened(t, s, time.Minute)
		given, err := registry.New(s).Txn(t.Context(), steady(0, x.ID()))
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i <= steps; i++ {
			v, err := registry.New(s).Txn(t.Context(), step(i))
			if err != nil {
				t.Fatal(err)
			}
			given = append(given, v...)
		}
		dies(p, s, given)
		mem.SetCapacity(1)
		want := strings.Fields(model(steps))
		for life := range 3 {
			if life == 2 {
				mem = mem.CrashSameBoot()
				mem.SetCapacity(1)
			}
			p := mem.Process()
			s := pages(t, p)
			got := strings.Fields(content(t, registry.New(s)))
			got = slices.DeleteFunc(got, func(e string) bool { return strings.HasPrefix(e, "checkpoint=") })
			if !slices.Equal(got, want) {
				t.Fatalf("after %d steps, restarted %d times: it holds %s", steps, life+1, got)
			}
			dies(p, s, goesOnFull(t, s, 10))
		}
	}
}

// What of a file's first page is damaged in one place is there in another.
func TestAHeaderThatIsDamagedOnceIsHarmless(t *testing.T) {
	t.Parallel()
	const steps = 12
	files := image(t, steps)
	for _, name := range []string{"journal-0", "journal-1"} {
		for _, control := range [][]byte{files["control"], nil} {
			for _, at := range []int{0, 8, 13, 17, 25, 45, 63, 100, secondHeader, secondHeader + 17, pageSize - 1} {
				b := append([]byte(nil), files[name]...)
				b[at] ^= 0x10
				r := mustOpenFS(t, machineOf(t, with(with(files, "control", control), name, b)))
				if got := content(t, r); got != model(steps) {
					t.Fatalf("byte %d of %s flipped: it holds %s", at, name, got)
				}
				r.Close()
			}
			sector := append([]byte(nil), files[name]...)
			clear(sector[:512]) // what a disk calls a sector
			r := mustOpenFS(t, machineOf(t, with(with(files, "control", control), name, sector)))
			if got := content(t, r); got != model(steps) {
				t.Fatalf("the first sector of %s is zeros: it holds %s", name, got)
			}
			r.Close()
		}
		both := append([]byte(nil), files[name]...)
		both[17] ^= 1
		both[secondHeader+17] ^= 1
		if r, err := openFS(t, machineOf(t, with(files, name, both))); !errors.Is(err, fault.Corrupt) {
			if err == nil {
				r.Close()
			}
			t.Fatalf("both headers of %s damaged: %v; nobody can know which generation is in force", name, err)
		}
	}
}

// The name of the first generation's file is older than that of the other.
func TestAFirstJournalThatIsGoneIsMissed(t *testing.T) {
	t.Parallel()
	files := image(t, 0)
	if _, ok := files["journal-0"]; !ok {
		t.Fatal("no room was reserved for the second generation")
	}
	delete(files, "journal-1")
	delete(files, "control")
	if r, err := openFS(t, machineOf(t, files)); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "missing") {
		if err == nil {
			r.Close()
		}
		t.Fatalf("error %v, expected that it is missing", err)
	}
}
