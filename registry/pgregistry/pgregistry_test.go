package pgregistry

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
	"github.com/ringfence/ringfence/registry/registrytest"
)

func TestMain(m *testing.M) {
	testserver.Waiting()
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	url := testserver.URL(t, "postgres")
	registrytest.Run(t, registrytest.Harness{
		Store: func(t testing.TB) registrytest.Store { return newStore(t, url) },
		Far: func(t testing.TB, s registrytest.Store, delay time.Duration) *registrytest.Process {
			far, p := s.(schemaStore).through(t, driver.Options{})
			p.Down(testserver.Fault{Delay: delay})
			inner, err := kv.Namespace(far, "")
			if err != nil {
				t.Fatal(err)
			}
			return &registrytest.Process{Registry: registry.New(inner)}
		},
		CrashNoticed: time.Second,
	})
}

func TestGroups(t *testing.T) { protocoltest.Run(t, newStore(t, testserver.URL(t, "postgres"))) }

func TestARecordedRequestWritesUnderTheSameChecks(t *testing.T) {
	t.Parallel()
	registrytest.Resent(t, registry.New(newStore(t, testserver.URL(t, "postgres")).open(t, driver.Options{})))
}
