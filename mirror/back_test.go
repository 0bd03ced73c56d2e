package mirror_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/mirror"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// goBack gives the target a registry with what that of the target had when saved was taken.
func (w *world) goBack(saved registry.Snapshot) {
	w.Helper()
	r := memregistry.New()
	for _, e := range saved.Entries {
		_, err := r.Txn(w.Context(), registry.Txn{Puts: []registry.Put{{Key: e.Key, Value: e.Value}}})
		w.must(err)
	}
	w.must(w.to.Registry.Close())
	w.to.Registry = r
}

func (w *world) saved() registry.Snapshot {
	w.Helper()
	all, err := w.to.Registry.List(w.Context(), "")
	w.must(err)
	return all
}

// The notes of a mirror go back to any earlier state: its log has acknowledged the numbers that come next already.
func TestMirrorGoesOnWhereItsTargetEndsThoughItsNotesWentBack(t *testing.T) {
	t.Parallel()
	for range 20 {
		w := newWorld(t, 2)
		w.produce(0, 100)
		w.must(w.mirror(true).Run(t.Context()))
		saved, at := []registry.Snapshot{w.saved()}, 100
		for range 1 + rand.IntN(6) { // runs that the registry forgets
			n := 1 + rand.IntN(40)
			w.produce(at, n)
			at += n + 10
			w.must(w.mirror(true).Run(t.Context()))
			saved = append(saved, w.saved())
		}
		w.goBack(saved[rand.IntN(len(saved))])
		w.produce(at, 200)
		w.must(w.mirror(true).Run(t.Context()))
		w.wantSame(0)
		w.produce(at+300, 20)
		_, err := w.mirror(false).CutOver(t.Context())
		w.must(err)
		w.wantSame(0)
	}
}

// mix appends records of the source to the copy, as a mirror does that another one has replaced.
func (w *world) mix(from int) {
	w.Helper()
	recs := w.contents(w.from, 0)[0]
	st, err := w.to.Log.Topic(w.Context(), w.storageName(w.to, 0))
	w.must(err)
	_, err = st.Append(w.Context(), 0, recs[from:from+2], nil)
	w.must(errors.Join(err, st.Close()))
}

func TestCopyInWhichMirrorsHaveMixedRecordsIsBegunAnew(t *testing.T) {
	t.Parallel()
	for what, from := range map[string]int{"again": 5, "too early": 70} {
		w := newWorld(t, 1)
		w.produce(0, 60)
		w.must(w.mirror(true).Run(t.Context()))
		w.produce(60, 60)
		w.mix(from)
		_, err := w.mirror(false).CutOver(t.Context())
		w.must(err)
		if w.wantSame(0); t.Failed() {
			t.Fatalf("with records that came %s", what)
		}
	}
}

// What the target has and the source has not may be all that is left of it.
func TestCopyThatHasMoreThanItsSourceStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.produce(0, 60)
	w.must(w.mirror(true).Run(t.Context()))
	saved := w.saved()
	w.produce(60, 60)
	w.must(w.mirror(true).Run(t.Context()))
	w.replace(w.from, 110)
	for _, notes := range []registry.Snapshot{w.saved(), saved} {
		w.goBack(notes)
		_, err := w.mirror(false).CutOver(t.Context())
		if left := len(w.contents(w.to, 0)[0]); !errors.Is(err, fault.Conflict) || left < 120 {
			t.Errorf("a cut-over of a source that was replaced: %v; expected a conflict, and that the %d records of the copy stay", err, left)
		}
		st, err := w.from.Log.Topic(t.Context(), w.storageName(w.from, 0))
		w.must(err)
		_, err = st.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("after")}}, nil) // fails when it was sealed
		w.must(errors.Join(err, st.Close()))
	}
}

// The target forgets the mirror and the cut-over, and the source that it was cut over. Both have gone on since.
func TestMoveLastsThoughRegistriesForgetIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.to.Name = elsewhere
	w.produce(0, 100)
	g, err := protocol.NewGroup(w.from.Registry, "billing")
	w.must(err)
	_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 2, Assignor: "sticky"})
	w.must(err)
	done := w.contents(w.from, 0)[0]
	w.must(g.Seek(t.Context(), 0, at(0, 0, done[20].Offset), ""))
	empty, home := w.saved(), w.from.Registry
	all, err := home.List(t.Context(), "")
	w.must(err)
	w.must(w.mirror(true).Run(t.Context()))
	noted := w.saved()
	_, err = w.mirror(false).CutOver(t.Context())
	w.must(err)
	target := topic.NewCatalog(w.to.Log, w.to.Registry, "")
	there, err := target.Open(t.Context(), name)
	w.must(err)
	for i := range 40 {
		_, err := there.Produce(t.Context(), fmt.Append(nil, i), topic.AnyPartition, []commitlog.Record{{Value: []byte("new")}}, nil)
		w.must(err)
	}
	w.must(there.Close())
	_, err = target.AddStorage(t.Context(), name, 3)
	w.must(err)
	_, err = target.Switch(t.Context(), name)
	w.must(err)

	r := memregistry.New()
	for _, e := range all.Entries {
		_, err := r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: e.Key, Value: e.Value}}})
		w.must(err)
	}
	defer home.Close()
	w.from.Registry = r
	for what, back := range map[string]registry.Snapshot{"all": empty, "the cut-over": noted} {
		w.goBack(back)
		if err := w.mirror(true).Run(t.Context()); !errors.Is(err, fault.Conflict) {
			t.Errorf("a mirror when %s is forgotten: %v", what, err)
		}
		source := topic.NewCatalog(w.from.Log, w.from.Registry, "")
		if _, err := source.AddStorage(t.Context(), name, 1); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), elsewhere) {
			t.Errorf("the source is opened again when %s is forgotten: %v", what, err)
		}
		if err := mirror.Abandon(t.Context(), w.from, name, elsewhere); !errors.Is(err, fault.Conflict) {
			t.Errorf("the move is abandoned when %s is forgotten: %v", what, err)
		}
		res, err := w.mirror(false).CutOver(t.Context())
		if err != nil || !res.Already || !res.Restored || !slices.Equal(res.Groups, []string{"billing"}) {
			t.Fatalf("a cut-over that is repeated when %s is forgotten: %+v, %v", what, res, err)
		}
		w.wantSame(0)
		added := 0
		for _, recs := range w.contents(w.to, 1) {
			added += len(recs)
		}
		doc, err := topic.NewCatalog(w.to.Log, w.to.Registry, "").Get(t.Context(), name)
		if err != nil || added != 40 || doc.Produce != 2 || doc.Storage[0].Ends == nil || doc.Storage[1].Ends == nil || doc.Storage[2].Partitions != 3 {
			t.Errorf("when %s is forgotten the target has %d of 40 new records, and is defined as %+v, %v", what, added, doc, err)
		}
		if left := w.left(w.to); len(left) != len(done)-20 {
			t.Errorf("when %s is forgotten the group has %d records of the copy to do; expected %d", what, len(left), len(done)-20)
		}
	}
}

// The source is opened again between the plan of a cut-over and the act: it stays where it is.
func TestSourceThatHasGrownMeanwhileIsNotCutOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.to.Name = elsewhere
	w.produce(0, 20)
	hooked := memregistry.NewStore().Open()
	w.must(w.to.Registry.Close())
	w.to.Registry = hooked.Registry
	c := topic.NewCatalog(w.from.Log, w.from.Registry, "")
	grown := false
	hooked.OnApply(func(keys []string) error {
		if !grown && strings.HasSuffix(strings.Join(keys, " "), "/cutover") {
			grown = true
			w.must(mirror.Abandon(w.Context(), w.from, name, elsewhere))
			_, err := c.AddStorage(w.Context(), name, 1) // producers go on here
			w.must(err)
			w.produce(20, 20)
		}
		return nil
	})
	if _, err := w.mirror(false).CutOver(t.Context()); !errors.Is(err, fault.Conflict) || !grown {
		t.Fatalf("the cut-over of a source that has grown: %v", err)
	}
	w.produce(40, 20)
	_, err := w.mirror(false).CutOver(t.Context())
	w.must(err)
	w.wantSame(0)
	w.wantSame(1)
}
