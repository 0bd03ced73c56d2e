package fileregistry

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// TestARegistryIsClosedWhileSessionsAreOpened is for the race detector, and for the memory that a
// closed registry no longer has.
func TestARegistryIsClosedWhileSessionsAreOpened(t *testing.T) {
	t.Parallel()
	for range 20 {
		r, err := Open(t.Context(), Config{Dir: t.TempDir(), NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		begun := make(chan struct{}, 4)
		for range 4 {
			wg.Go(func() {
				for {
					s, err := r.OpenSession(t.Context(), time.Minute)
					if errors.Is(err, fault.Closed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					select {
					case begun <- struct{}{}:
					default:
					}
					_ = s.Deadline()
				}
			})
		}
		<-begun
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}
