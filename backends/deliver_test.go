package backends_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/delivertest"
	"github.com/ringfence/ringfence/internal/testserver"
)

// TestDeliverProcess is no test but the body of the processes of the one below.
func TestDeliverProcess(t *testing.T) { delivertest.Process(t, backends.All()) }

func TestDaemonsAndServersKilledLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	kafka, postgres := testserver.Private(t, "kafka"), testserver.Private(t, "postgres")
	delivertest.Run(t, delivertest.Stores{
		Config: ringfence.Config{
			Log: kafka.URL(), Registry: postgres.URL(), Namespace: fmt.Sprintf("deliver-%08x", rand.Uint32()), Backends: backends.All(),
		},
		Restart: []func(){
			func() { postgres.Kill(); postgres.Restart() },
			func() { kafka.Kill(); kafka.Restart() },
		},
	})
}
