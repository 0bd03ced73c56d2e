package filelog_test

import (
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/commitlog/logtest"
	"github.com/ringfence/ringfence/internal/vfs"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]filelog.Config{
		"sync":           {},
		"os":             {Options: driver.Options{Durability: driver.OS}},
		"small segments": {SegmentBytes: filelog.MinSegmentBytes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logtest.Run(t, logtest.Harness{Store: func(t testing.TB) func() *commitlog.Log {
				c := c
				c.Dir = t.TempDir()
				return func() *commitlog.Log { return mustOpen(t, c) }
			}})
		})
	}
}

func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	logtest.Run(t, logtest.Harness{Store: func(t testing.TB) func() *commitlog.Log {
		machine := vfs.NewMem(1)
		return func() *commitlog.Log {
			return mustOpen(t, filelog.Config{FS: machine.Process(), SegmentBytes: filelog.MinSegmentBytes})
		}
	}})
}

func mustOpen(t testing.TB, c filelog.Config) *commitlog.Log {
	t.Helper()
	l, err := filelog.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
