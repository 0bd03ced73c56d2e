package mirror_test

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/mirror"
	"github.com/ringfence/ringfence/topic"
)

// Records that stand at the target and were not mirrored are never mixed with those of the source,
// and the source is not ended for a target that can't take over.
func TestATargetWithRecordsOfItsOwnIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.produce(0, 50)
	c := topic.NewCatalog(w.to.Log, w.to.Registry, "")
	w.must(c.Create(t.Context(), name, topic.Config{Partitions: 2}))
	there, err := c.Open(t.Context(), name)
	w.must(err)
	_, err = there.Produce(t.Context(), []byte("k"), topic.AnyPartition, []commitlog.Record{{Value: []byte("own")}}, nil)
	w.must(errors.Join(err, there.Close()))
	if err := w.mirror(true).Run(t.Context()); !errors.Is(err, fault.Exists) {
		t.Errorf("a mirror to it: %v", err)
	}
	if _, err := w.mirror(false).CutOver(t.Context()); !errors.Is(err, fault.Exists) {
		t.Errorf("a cut-over to it: %v", err)
	}
	w.produce(100, 10) // fails when the source was sealed
	w.must(c.Delete(t.Context(), name, ""))
	_, err = w.mirror(false).CutOver(t.Context())
	w.must(err)
	w.wantSame(0)
}

// A topic goes to another log, back, and there again: what was left behind is deleted each time.
func TestATopicMovesBackAndForth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.produce(0, 60)
	want := w.contents(w.from, 0)
	from, to := w.from, w.to
	for move := range 3 {
		c := topic.NewCatalog(to.Log, to.Registry, "")
		if move > 0 {
			res, err := mirrorOf(t, from, to).CutOver(t.Context())
			if !errors.Is(err, fault.Exists) && !res.Already {
				t.Errorf("move %d to where the topic still is: %+v, %v", move, res, err)
			}
			w.must(c.Delete(t.Context(), name, ""))
		}
		if res, err := mirrorOf(t, from, to).CutOver(t.Context()); err != nil || res.Already {
			t.Fatalf("move %d: %+v, %v", move, res, err)
		}
		got := w.contents(to, 0)
		for p := range want {
			if len(got[p]) != len(want[p]) {
				t.Errorf("move %d, partition %d: %d records; expected %d", move, p, len(got[p]), len(want[p]))
			}
		}
		from, to = to, from
	}
}

func mirrorOf(t *testing.T, from, to mirror.Side) *mirror.Mirror {
	t.Helper()
	m, err := mirror.New(mirror.Config{From: from, To: to, Topic: name})
	must(t, err)
	return m
}
