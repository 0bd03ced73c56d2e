package sqlregistry

import (
	"path/filepath"
	"sync"
	"testing"
)

// SQLite tells one of those who make a file at the same moment that it is locked, without waiting: about
// one in 1,500.
func TestManyMakeAFileAtOnce(t *testing.T) {
	t.Parallel()
	for range 40 {
		path := filepath.Join(t.TempDir(), "registry.db")
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				f, err := openFiles(t.Context(), path, "full")
				if err != nil {
					t.Error(err)
					return
				}
				if err := f.close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}
