package pgregistry

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/registrytest"
)

func TestConformance(t *testing.T) {
	url := testserver.URL(t, "postgres")
	registrytest.Run(t, registrytest.Harness{
		Store:        func(t testing.TB) registrytest.Store { return newStore(t, url) },
		CrashNoticed: time.Second,
	})
}
