package pgregistry

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	url := testserver.URL(t, "postgres")
	registrytest.Run(t, registrytest.Harness{
		Store:        func(t testing.TB) registrytest.Store { return newStore(t, url) },
		CrashNoticed: time.Second,
	})
}
