package filelog_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/testdisk"
)

// On a full disk that copies on write, a store into a page of a file ends the process. The snapshot
// is there because it makes the disk copy even what was marked as not to be copied.
func TestAFullDiskThatCopiesOnWriteEndsNoProcess(t *testing.T) {
	t.Parallel()
	for _, level := range []driver.Durability{driver.Sync, driver.OS} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			disk := testdisk.Mount(t, "btrfs", 128)
			home := filepath.Join(disk.Dir, "home")
			btrfs(t, "create", home)
			c := filelog.Config{Dir: filepath.Join(home, "data"), Options: driver.Options{Durability: level}}
			l, err := filelog.Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			topic := openTopic(t, l, "t", 1)
			acked := 0
			add := func() error {
				_, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: fmt.Appendf(nil, "%d %100d", acked, 0)}}, nil)
				if err == nil {
					acked++
				}
				return err
			}
			if err := add(); err != nil {
				t.Fatal(err)
			}
			btrfs(t, "snapshot", home, filepath.Join(disk.Dir, "snapshot"))
			if r, err := filelog.Inspect(t.Context(), c, nil); err != nil || r.Topics[0].Records != 1 {
				t.Errorf("the inspection beside a living process: %+v, %v", r, err)
			}
			free := disk.Fill(t)
			for i := range 200 {
				switch err := add(); {
				case err == nil: // it has some room that it was given before
				case !errors.Is(err, commitlog.ErrNotAppended) && !errors.Is(err, commitlog.ErrUnknown):
					t.Fatalf("append %d on a full disk: %v", i, err)
				}
				if i%20 == 0 {
					disk.Sync(t) // saves the pages: the next store to each is the first since
				}
			}
			free()
			before := acked
			for range 10 {
				if err := add(); err != nil {
					t.Errorf("with room again: %v", err)
				}
			}
			recs := recordsOf(t, topic)
			have := map[string]bool{}
			for _, r := range recs {
				have[string(r.Value)] = true
			}
			for i := range acked {
				if !have[fmt.Sprintf("%d %100d", i, 0)] {
					t.Errorf("acknowledged record %d is lost", i)
				}
			}
			t.Logf("%d appends went through, %d of them on the full disk", acked, before-1)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// btrfs does something with a subvolume.
func btrfs(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("btrfs", append([]string{"subvolume"}, args...)...).CombinedOutput(); err != nil { //nolint:gosec // of the test
		t.Fatalf("btrfs subvolume %q: %v: %s", args, err, out)
	}
}

func recordsOf(t *testing.T, topic *commitlog.Topic) []commitlog.Record {
	t.Helper()
	b, err := topic.Bounds(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var recs []commitlog.Record
	for at := b.First; at < b.Next; {
		if recs, at, err = topic.Read(t.Context(), 0, at, recs, nil); err != nil {
			t.Fatal(err)
		}
	}
	return recs
}
