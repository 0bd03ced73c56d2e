//go:build linux

package vfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/vfs"
)

func TestAwayNeedsADirectoryToStayAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(above string) error
		away bool
		why  error
	}{
		"nothing happened": {harm: func(string) error { return nil }},
		"moved away":       {harm: func(above string) error { return os.Rename(above, above+".old") }, away: true, why: fs.ErrNotExist},
		"replaced": {away: true, harm: func(above string) error {
			return errors.Join(os.Rename(above, above+".old"), os.MkdirAll(filepath.Join(above, "data", "d"), 0o700))
		}},
		"a link to it, which is switched": {away: true, harm: func(above string) error {
			return errors.Join(os.Rename(above, above+".1"), os.MkdirAll(filepath.Join(above+".2", "data", "d"), 0o700), os.Symlink(above+".2", above))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			above := filepath.Join(t.TempDir(), "above")
			must(t, os.MkdirAll(filepath.Join(above, "data", "d"), 0o700))
			fsys, err := vfs.OpenOS(filepath.Join(above, "data"))
			must(t, err)
			defer fsys.Close()
			was, err := fsys.Stat("d")
			must(t, err)
			must(t, c.harm(above))
			away, err := vfs.Away(fsys, "d", was)
			if away != c.away || c.away != (err != nil) || c.why != nil && !errors.Is(err, c.why) {
				t.Errorf("away %t, %v; expected %t", away, err, c.away)
			}
		})
	}
}
