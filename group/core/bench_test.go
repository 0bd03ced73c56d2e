package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// BenchmarkStep is what a large group costs a member each time something changed, and each time
// its workers told their progress.
func BenchmarkStep(b *testing.B) {
	const units, members = 10_000, 100
	build := func() (*State, *protocol.State) {
		w := &world{t: &testing.T{}, now: time.Hour, store: &store{}}
		w.reg = registry.New(w.store)
		w.group, _ = protocol.NewGroup(w.reg, "g")
		n := w.start("m00", func(c *Config) { c.Units = units })
		st := &protocol.State{Meta: &protocol.Meta{Format: 1, Topic: "t", Units: units, Assignor: "sticky"}}
		st.Units = make([]protocol.Unit, units)
		for i := range members {
			id := fmt.Sprintf("m%02d", i)
			st.Members = append(st.Members, protocol.Member{ID: id, Incarnation: "x"})
			st.MemberVersions = append(st.MemberVersions, "1")
		}
		n.s.Step(Input{Now: time.Hour, Event: SessionOpened{ID: 0, Session: "s", Lease: 2 * time.Hour}})
		return n.s, st
	}
	b.Run("load", func(b *testing.B) {
		s, st := build()
		for b.Loop() {
			s.session, s.lease, s.joined, s.everJoined, s.loading = "s", 2*time.Hour, true, false, 1
			s.plan = plan{}
			s.Step(Input{Now: time.Hour, Event: Loaded{ID: 1, State: st}})
			for n := range s.units {
				s.units[n].write = 0
			}
		}
	})
	b.Run("progress", func(b *testing.B) {
		s, st := build()
		s.session, s.lease, s.joined, s.loading = "s", 2*time.Hour, true, 1
		s.Step(Input{Now: time.Hour, Event: Loaded{ID: 1, State: st}})
		for b.Loop() {
			s.Step(Input{Now: time.Hour, Event: Progress{}})
		}
	})
}
