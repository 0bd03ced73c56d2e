package pulsarlog

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/delivertest"
	"github.com/ringfence/ringfence/internal/testserver"
)

func withPulsar() []ringfence.Backend {
	return append(backends.All(), ringfence.Backend{Scheme: "pulsar", OpenLog: OpenURL})
}

// TestDeliverProcess is no test but the body of the processes of the one below.
func TestDeliverProcess(t *testing.T) { delivertest.Process(t, withPulsar()) }

func TestDaemonsAndARegistryKilledLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	u, redis := namespace(t), testserver.Private(t, "redis")
	delivertest.Run(t, delivertest.Stores{
		Config: ringfence.Config{
			Log: u.String(), Registry: redis.URL(), Namespace: "deliver-" + u.Path[strings.LastIndexByte(u.Path, '/')+1:], Backends: withPulsar(),
		},
		Restart: []func(){func() { redis.Kill(); redis.Restart() }},
	})
}
