package fileregistry

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
	"github.com/ringfence/ringfence/registry/registrytest"
)

type dirStore string

func (d dirStore) Open(t testing.TB, o driver.Options) *registrytest.Process {
	gate := new(hook.Gate)
	s, err := open(gate.With(t.Context()), Config{Dir: string(d), Options: o})
	if err != nil {
		t.Fatal(err)
	}
	inner, err := kv.Namespace(s, o.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	return &registrytest.Process{
		Registry: registry.New(inner),
		Kill:     s.crash,
		Freeze:   gate.Shut,
		Thaw:     gate.Open,
	}
}

// crash stops everything as the death of the process would, as far as others can see.
func (s *store) crash() {
	s.once.Do(func() {
		s.keeper.stop(false)
		s.shutDown()
	})
}

func TestConformance(t *testing.T) {
	registrytest.Run(t, registrytest.Harness{
		Store:        func(t testing.TB) registrytest.Store { return dirStore(t.TempDir()) },
		CrashNoticed: time.Second,
	})
}

func TestGroups(t *testing.T) { protocoltest.Run(t, dirStore(t.TempDir())) }
