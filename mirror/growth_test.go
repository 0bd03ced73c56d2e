package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/mirror"
	"github.com/ringfence/ringfence/topic"
)

// sealHook is a log that calls before and after around each seal; nil: nothing.
type sealHook struct {
	driver.Log
	before, after func(driver.Topic) error
}

func (l sealHook) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	return hookedTopic{t, l}, err
}

type hookedTopic struct {
	driver.Topic
	l sealHook
}

func (t hookedTopic) Seal(ctx context.Context) ([]int64, error) {
	if t.l.before != nil {
		if err := t.l.before(t.Topic); err != nil {
			return nil, err
		}
	}
	ends, err := t.Topic.Seal(ctx)
	if err == nil && t.l.after != nil {
		err = t.l.after(t.Topic)
	}
	return ends, err
}

// late produces a record at the source.
func (w *world) late() error {
	_, err := w.source.Produce(w.Context(), []byte("k"), topic.AnyPartition, []commitlog.Record{{Value: []byte("late")}}, nil)
	return err
}

// A topic that is being grown has a storage topic more than its producers know. Those who run during
// the cut-over are refused by the one that they know and try the next. It must not take their
// records: the target would take newer ones in the storage topic before. Nor must they move the
// pointer of a definition that is the target's by then.
func TestACutOverAmidAGrowthLeavesProducersNoWayOn(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("one registry: %v", shared), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			if shared {
				w.share()
			}
			w.produce(0, 30)
			_, err := topic.NewCatalog(w.from.Log, w.from.Registry, "").AddStorage(t.Context(), name, 4)
			w.must(err)
			from := w.from
			from.Log = commitlog.New(sealHook{w.origin.Driver(), nil, func(driver.Topic) error {
				if err := w.late(); err != nil && !errors.Is(err, fault.Sealed) {
					return err
				}
				return nil
			}})
			m, err := mirror.New(mirror.Config{From: from, To: w.to, SameRegistry: shared, Topic: name})
			w.must(err)
			_, err = m.CutOver(t.Context())
			w.must(errors.Join(err, from.Log.Close()))
			if err := w.late(); !errors.Is(err, fault.Sealed) {
				t.Errorf("a producer at the source after the cut-over: %v", err)
			}
			w.wantSame(0)
			w.wantSame(1)
			w.wantSealedBefore()
		})
	}
}

// wantSealedBefore looks whether what lies before the produce pointer of the target is over.
func (w *world) wantSealedBefore() {
	w.Helper()
	there, err := topic.NewCatalog(w.to.Log, w.to.Registry, "").Open(w.Context(), name)
	w.must(err)
	d := there.Document()
	for i := range d.Storage {
		st, err := there.Storage(i)
		w.must(err)
		for p := range d.Storage[i].Partitions {
			b, err := st.Bounds(w.Context(), p)
			w.must(err)
			if i < d.Produce && (!b.Sealed || b.Next != d.End(i, p)) || i > d.Produce && b.Next > 0 {
				w.Errorf("storage topic %d, partition %d: %+v, its end is %d; producers are at storage topic %d", i, p, b, d.End(i, p), d.Produce)
			}
		}
	}
	w.must(there.Close())
}

// Where the target marks a seal by a record, as Kafka does, a partition that is empty at the source
// is not at the target. A group that has passed it never looks at it again.
func TestACutOverFinishesEmptyPartitionsAtATargetThatMarksSeals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	c := topic.NewCatalog(w.from.Log, w.from.Registry, "")
	_, err := c.AddStorage(t.Context(), name, 4)
	w.must(err)
	_, err = c.Switch(t.Context(), name) // both partitions are empty
	w.must(err)
	g, err := protocol.NewGroup(w.from.Registry, "billing")
	w.must(err)
	_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 6, First: 2, Assignor: "sticky"})
	w.must(err)
	w.must(w.to.Log.Close())
	w.to.Log = commitlog.New(sealHook{w.store.Driver(), func(st driver.Topic) error {
		for p := range st.Config().Partitions {
			answer := make(chan error, 1)
			st.Append(t.Context(), &driver.AppendRequest{Partition: p, Records: []driver.Record{{}}}, func(_ int64, err error) { answer <- err })
			if err := errors.Join(<-answer, st.Trim(t.Context(), p, 1)); err != nil { // readers don't see it
				return err
			}
		}
		return nil
	}, nil})
	_, err = w.mirror(false).CutOver(t.Context())
	w.must(err)
	d, err := topic.NewCatalog(w.to.Log, w.to.Registry, "").Get(t.Context(), name)
	w.must(err)
	there, err := protocol.NewGroup(w.to.Registry, "billing")
	w.must(err)
	for p := range 2 {
		u, err := there.Unit(t.Context(), p)
		w.must(err)
		if u.Checkpoint == nil || u.Checkpoint.Positions[0].Next != d.End(0, p) || d.End(0, p) == 0 {
			t.Errorf("partition %d ends at %d; the group is at %+v", p, d.End(0, p), u.Checkpoint)
		}
	}
}

// What was copied to a target that somebody deleted is copied again, and not taken to be there.
func TestADeletedTargetIsCopiedToAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.produce(0, 60)
	w.must(w.mirror(true).Run(t.Context()))
	w.must(w.to.Log.DeleteTopic(t.Context(), w.storageName(w.to, 0)))
	_, err := w.mirror(false).CutOver(t.Context())
	w.must(err)
	w.wantSame(0)
}

// replace puts a topic with so many other records in the place of that of a side.
func (w *world) replace(side mirror.Side, records int) {
	w.Helper()
	c := commitlog.TopicConfig{Name: w.storageName(side, 0), Partitions: 1}
	w.must(side.Log.DeleteTopic(w.Context(), c.Name))
	w.must(side.Log.CreateTopic(w.Context(), c))
	st, err := side.Log.Topic(w.Context(), c.Name)
	w.must(err)
	for range records {
		_, err := st.Append(w.Context(), 0, []commitlog.Record{{Value: []byte("other")}}, nil)
		w.must(err)
	}
	w.must(st.Close())
}

// Records of another source, or a target that lost some, must not pass for a copy.
func TestTopicsThatWereReplacedAreRefused(t *testing.T) {
	t.Parallel()
	for what, side := range map[string]func(w *world) mirror.Side{
		"the source": func(w *world) mirror.Side { return w.from },
		"the target": func(w *world) mirror.Side { return w.to },
	} {
		for _, records := range []int{3, 90} {
			w := newWorld(t, 1)
			w.produce(0, 60)
			w.must(w.mirror(true).Run(t.Context()))
			w.replace(side(w), records)
			if err := w.mirror(true).Run(t.Context()); !errors.Is(err, fault.Conflict) {
				t.Errorf("%s was replaced by %d records: %v; expected a conflict", what, records, err)
			}
		}
	}
}
