package memlog_test

import (
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/logtest"
	"github.com/ringfence/ringfence/commitlog/memlog"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*memlog.Options{"dense": nil, "gaps": {Gaps: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logtest.Run(t, logtest.Harness{Store: func(testing.TB) func() *commitlog.Log {
				return memlog.NewStore(opts).Open
			}})
		})
	}
}
