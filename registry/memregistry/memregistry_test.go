package memregistry_test

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/registry/registrytest"
)

type store struct{ s *memregistry.Store }

func (s store) Open(t testing.TB, o driver.Options) *registrytest.Process {
	return process(s.open(t, o))
}

func (s store) open(t testing.TB, o driver.Options) *memregistry.Handle {
	h, err := s.s.OpenOptions(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func process(h *memregistry.Handle) *registrytest.Process {
	return &registrytest.Process{Registry: h.Registry, Kill: h.Kill, Freeze: h.Freeze, Thaw: h.Thaw}
}

func TestConformance(t *testing.T) {
	registrytest.Run(t, registrytest.Harness{
		Store: func(testing.TB) registrytest.Store { return store{memregistry.NewStore()} },
		Far: func(t testing.TB, s registrytest.Store, delay time.Duration) *registrytest.Process {
			h := s.(store).open(t, driver.Options{})
			h.SetLatency(delay)
			return process(h)
		},
		CrashNoticed: time.Second,
	})
}

func TestGroups(t *testing.T) { protocoltest.Run(t, store{memregistry.NewStore()}) }
