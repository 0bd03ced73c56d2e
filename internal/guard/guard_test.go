package guard

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGuardNoticesADirectoryThatIsNotTheOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(dir string) error
		says string // "": nothing is wrong
	}{
		"nothing happened": {func(string) error { return nil }, ""},
		"removed":          {os.RemoveAll, "was removed"},
		"emptied":          {func(dir string) error { return os.RemoveAll(filepath.Join(dir, "registry")) }, "was removed"},
		"moved away":       {func(dir string) error { return os.Rename(dir, dir+".old") }, "was removed"},
		"replaced": {func(dir string) error {
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			return makeStore(dir)
		}, "was replaced"},
		"replaced by a file": {func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.WriteFile(dir, nil, 0o600))
		}, "was replaced"},
		"replaced by links in a circle": {func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Symlink(filepath.Base(dir), dir))
		}, "was replaced"},
		"moved, and a link to it": {func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Symlink(filepath.Base(dir)+".old", dir))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			if err := makeStore(dir); err != nil {
				t.Fatal(err)
			}
			g := New("elsewhere", "mem:", "file://"+dir)
			if err := c.harm(dir); err != nil {
				t.Fatal(err)
			}
			err := g.Check()
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v; expected %q", err, c.says)
			}
		})
	}
}

// makeStore makes what a guard looks at.
func makeStore(dir string) error {
	for _, part := range []string{"log", "registry"} {
		if err := os.MkdirAll(filepath.Join(dir, part), 0o755); err != nil {
			return err
		}
	}
	return nil
}
