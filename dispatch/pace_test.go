package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A few slow records among many fast ones must not keep the fast ones, nor each other, waiting:
// the whole takes not much longer than the slow ones alone, spread over the handlers.
func TestSlowRecordsAmongFastOnesUseTheWholeConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const count, every, takes = 20000, 100, 5 * time.Millisecond
		var handled atomic.Int64
		done := make(chan struct{})
		e := mustNew(t, Config{Inputs: []Input{{Source: newEndless(count, count)}}, Handler: func(_ context.Context, r *Record) error {
			if r.Offset%every == 0 {
				time.Sleep(takes)
			}
			if handled.Add(1) == count {
				close(done)
			}
			return nil
		}})
		began := time.Now()
		launch(t, e)
		<-done
		if ideal, took := count/every*takes/16, time.Since(began); took > 3*ideal {
			t.Errorf("took %s; the slow records alone take %s", took, ideal)
		}
	})
}
