package presence_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/registry/internal/presence"
)

func TestWatchersAreThoseThatWereSetLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		started, watched := map[int]int{}, map[int]bool{}
		dies := make(chan int)
		w := presence.Watchers[int]{Watch: func(ctx context.Context, p int) {
			mu.Lock()
			started[p]++
			watched[p] = true
			mu.Unlock()
			select {
			case <-ctx.Done():
			case <-dies:
			}
			mu.Lock()
			delete(watched, p)
			mu.Unlock()
		}}
		set := func(processes ...int) {
			t.Helper()
			w.Set(t.Context(), processes)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := slices.Sorted(maps.Keys(watched)); !slices.Equal(got, processes) {
				t.Errorf("watched are %v, expected %v", got, processes)
			}
		}
		set(1, 2)
		set(2, 3)
		set(2, 3)
		if started[2] != 1 {
			t.Errorf("the watcher of a process that stays was started %d times", started[2])
		}
		set(2)
		dies <- 2
		synctest.Wait()
		set(2) // it came back
		if started[2] != 2 {
			t.Error("after one death nobody watches the process any more")
		}
		set(2, 4)
		w.Stop()
		if len(watched) > 0 {
			t.Errorf("%v are watched after the end", watched)
		}
	})
}
