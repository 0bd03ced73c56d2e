package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// The group stores the progress of a unit that has been quiet only once Advanced was called.
func TestThatARecordIsFinishedIsTold(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"at the return": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := filled(1, 1)
				var told atomic.Bool
				var owed *Later
				done := make(chan struct{})
				e := mustNew(t, Config{Inputs: l.input(), Advanced: func() { told.Store(true) }, Handler: func(_ context.Context, r *Record) error {
					if late {
						owed = NewLater(r)
						r.AnswerLater(owed)
						return nil
					}
					<-done
					return nil
				}})
				launch(t, e)
				synctest.Wait()
				told.Store(false)
				before := e.Version()
				if close(done); late {
					if err := owed.Answer(nil); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if !told.Load() || e.Version() == before {
					t.Error("a record was finished, and nobody was told that the progress has changed")
				}
			})
		})
	}
}
