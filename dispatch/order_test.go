package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Records wait for those that have the same ordering key, whatever their keys are, and for no others.
func TestRecordsAreOrderedByWhatTheFunctionReturns(t *testing.T) {
	t.Parallel()
	account := func(key []byte) []byte { a, _, _ := bytes.Cut(key, []byte("/")); return a }
	for name, c := range map[string]struct {
		by       func([]byte) []byte
		want     []string // handled before a/1, the first record, succeeds
		handlers int
	}{
		"the key":              {nil, []string{"a/2", "b/1", "b/2"}, 0},
		"a part of it":         {account, []string{"b/1", "b/2"}, 0},
		"nothing":              {func([]byte) []byte { return nil }, []string{"a/1", "a/2", "b/1", "b/2"}, 0},
		"nothing, one handler": {func([]byte) []byte { return nil }, []string{"a/1", "a/2", "b/1", "b/2"}, 1},
		"always same":          {func([]byte) []byte { return []byte{} }, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog()
				for _, key := range []string{"a/1", "a/2", "b/1", "a/1", "b/2"} {
					l.add(key, "", 0)
				}
				var mu sync.Mutex
				var before, all []string
				began, over := time.Now(), false
				e := mustNew(t, Config{Inputs: l.input(), OrderBy: c.by, Concurrency: c.handlers, Handler: func(_ context.Context, r *Record) error {
					mu.Lock()
					defer mu.Unlock()
					if r.Offset == 0 && time.Since(began) < time.Minute {
						return later{time.Minute}
					}
					if over = over || r.Offset == 0; !over {
						before = append(before, string(r.Key))
					}
					all = append(all, fmt.Sprint(r.Offset))
					return nil
				}})
				stop := launch(t, e)
				rest(2 * time.Minute)
				drain(t, e, stop)
				slices.Sort(before)
				if !slices.Equal(before, c.want) || len(all) != 5 {
					t.Errorf("handled before the first record: %q; expected %q; in all %q", before, c.want, all)
				}
			})
		})
	}
}
