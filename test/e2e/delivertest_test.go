package e2e_test

import (
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/delivertest"
)

// TestDeliverProcess is no test but the body of the processes of the one below.
func TestDeliverProcess(t *testing.T) { delivertest.Process(t, nil) }

func TestDaemonsKilledOnADirectoryLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	delivertest.Run(t, delivertest.Stores{Config: ringfence.Config{Dir: t.TempDir()}})
}
