package mirror_test

import (
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/topic"
)

// What is retired at the source, before the mirror or behind it, does not move: it keeps its place at the
// target, and what was copied of it goes. All else moves, with the progress of groups.
func TestRetiredStorageTopicsDoNotMove(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		for _, copied := range []bool{false, true} {
			t.Run(fmt.Sprintf("one registry: %v, copied before: %v", shared, copied), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 2)
				if shared {
					w.share()
				}
				c := topic.NewCatalog(w.from.Log, w.from.Registry, "")
				g, err := protocol.NewGroup(w.from.Registry, "billing")
				w.must(err)
				w.produce(0, 30)
				_, err = c.AddStorage(t.Context(), name, 4)
				w.must(err)
				doc, err := c.Switch(t.Context(), name)
				w.must(err)
				w.produce(30, 30)
				_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 6, Assignor: "sticky"})
				w.must(err)
				for p := range 2 {
					w.must(g.Seek(t.Context(), p, at(0, p, doc.End(0, p)), ""))
				}
				w.must(g.Seek(t.Context(), 3, at(1, 1, 2), ""))
				if copied {
					w.must(w.mirror(true).Run(t.Context()))
				}
				st, err := w.from.Log.Topic(t.Context(), doc.Storage[0].Name)
				w.must(err)
				for p := range 2 {
					w.must(st.Trim(t.Context(), p, 1<<40))
				}
				w.must(st.Close())
				r, err := c.Retire(t.Context(), name)
				w.must(err)
				if len(r.Retired) != 1 {
					t.Fatalf("%+v", r)
				}

				_, err = w.mirror(false).CutOver(t.Context())
				w.must(err)
				target := topic.NewCatalog(w.to.Log, w.to.Registry, "")
				if doc, err = target.Get(t.Context(), name); err != nil || doc.Left() != 1 || doc.Produce != len(doc.Storage)-1 {
					t.Fatalf("%+v, %v", doc, err)
				}
				w.must(target.Resume(t.Context(), name, doc.Life))
				w.wantSame(1)
				all, err := w.to.Log.Topics(t.Context())
				w.must(err)
				if len(all) != len(doc.Storage)-1 || all[0].Name != doc.Storage[1].Name {
					t.Errorf("the target has %v; expected %s", all, doc.Storage[1].Name)
				}
				there, err := protocol.NewGroup(w.to.Registry, "billing")
				w.must(err)
				state, err := there.Load(t.Context(), true)
				w.must(err)
				if state.Meta == nil || state.Meta.First != 2 || state.Units[0].Checkpoint != nil || state.Units[3].Checkpoint == nil {
					t.Errorf("the group has %+v, %+v", state.Meta, state.Units)
				}
			})
		}
	}
}

func at(storage, partition int, next int64) protocol.Checkpoint {
	return protocol.Checkpoint{Positions: []protocol.Position{{Storage: storage, Partition: partition, Next: next}}}
}
