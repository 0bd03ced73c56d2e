package mirror_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
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
