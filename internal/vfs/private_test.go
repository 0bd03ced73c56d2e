//go:build linux

package vfs_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/internal/vfs"
)

// Several processes begin at once in an empty directory that is open to others: none takes what another has just made
// there for somebody else's.
func TestPrivateDirectoryIsOpenedByManyAtOnce(t *testing.T) {
	t.Parallel()
	for i := range 50 {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // it is to be open to others
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				o, err := vfs.CreateData(dir, false, slog.New(slog.DiscardHandler))
				if err == nil {
					err = errors.Join(o.MkdirAll("log", 0o700), o.Close())
				}
				if err != nil {
					t.Errorf("directory %d: %v", i, err)
				}
			})
		}
		all.Wait()
	}
}
