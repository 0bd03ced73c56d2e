package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/mirror"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// unfinished are the values in a partition that a position leaves to be done, in order.
func unfinished(recs []commitlog.Record, p protocol.Position) []string {
	var left []string
	for _, r := range recs {
		done := slices.ContainsFunc(p.Done, func(d protocol.Range) bool { return r.Offset >= d[0] && r.Offset < d[1] })
		if r.Offset >= p.Next && !done {
			left = append(left, string(r.Value))
		}
	}
	return left
}

// progress draws how far a group may be in a partition.
func progress(t *rapid.T, partition int, recs []commitlog.Record, end int64) protocol.Position {
	p := protocol.Position{Partition: partition}
	offsets := []int64{0}
	for _, r := range recs {
		offsets = append(offsets, r.Offset, r.Offset+1)
	}
	offsets = slices.Compact(append(offsets, end))
	i := rapid.IntRange(0, len(offsets)-1).Draw(t, "next")
	p.Next = offsets[i]
	for range rapid.IntRange(0, 3).Draw(t, "ranges") {
		if i += rapid.IntRange(1, 4).Draw(t, "open"); i+1 >= len(offsets) {
			break
		}
		from := offsets[i]
		if i += rapid.IntRange(1, 5).Draw(t, "done"); i >= len(offsets) {
			break
		}
		p.Done = append(p.Done, protocol.Range{from, offsets[i]})
	}
	return p
}

// What a group has to do at the target is exactly what it had to do at the source, whatever the
// gaps between offsets, the ranges that were finished out of order, and what the source has dropped.
func TestACutOverCarriesExactlyTheUnfinishedRecords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const partitions = 3
		w := newWorld(t, partitions)
		w.produce(0, rapid.IntRange(0, 200).Draw(rt, "before"))
		if rapid.Bool().Draw(rt, "mirror first") {
			w.must(w.mirror(true).Run(t.Context()))
		}
		w.produce(1000, rapid.IntRange(0, 100).Draw(rt, "after"))
		g, err := protocol.NewGroup(w.from.Registry, "billing")
		w.must(err)
		_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: partitions, Assignor: "sticky"})
		w.must(err)
		st, err := w.source.Storage(0)
		w.must(err)
		source := w.contents(w.from, 0)
		var positions [partitions]protocol.Position
		for p := range partitions {
			b, err := st.Bounds(t.Context(), p)
			w.must(err)
			positions[p] = progress(rt, p, source[p], b.Next)
			w.must(g.Seek(t.Context(), p, protocol.Checkpoint{Positions: []protocol.Position{positions[p]}}, "test"))
		}
		res, err := w.mirror(false).CutOver(t.Context())
		w.must(err)
		if !slices.Equal(res.Groups, []string{"billing"}) || res.Already {
			rt.Fatalf("cut over %+v", res)
		}
		target := w.contents(w.to, 0)
		w.wantSame(0)
		there, err := protocol.NewGroup(w.to.Registry, "billing")
		w.must(err)
		for p := range partitions {
			u, err := there.Unit(t.Context(), p)
			w.must(err)
			want, got := unfinished(source[p], positions[p]), unfinished(target[p], u.Checkpoint.Positions[0])
			if !slices.Equal(want, got) {
				rt.Fatalf("partition %d: %+v became %+v, which leaves %v; want %v", p, positions[p], u.Checkpoint.Positions[0], got, want)
			}
		}
	})
}

// Who paused a group wants nothing of it processed before they say so.
func TestACutOverKeepsWhatIsPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	for group, units := range map[string][]int{"whole": nil, "parts": {0, 2}, "none": {}} {
		g, err := protocol.NewGroup(w.from.Registry, group)
		w.must(err)
		_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 3, Assignor: "sticky"})
		w.must(err)
		if group != "none" {
			w.must(g.Pause(t.Context(), "ada", units...))
		}
	}
	_, err := w.mirror(false).CutOver(t.Context())
	w.must(err)
	for group, want := range map[string]protocol.Control{
		"whole": {Paused: true, By: "ada"}, "parts": {PausedUnits: []int{0, 2}, By: "ada"}, "none": {},
	} {
		g, err := protocol.NewGroup(w.to.Registry, group)
		w.must(err)
		st, err := g.Load(t.Context(), false)
		w.must(err)
		st.Control.At = 0
		if !reflect.DeepEqual(st.Control, want) {
			t.Errorf("group %s: %+v at the target, want %+v", group, st.Control, want)
		}
	}
}

func TestACutOverEndsTheSourceAndOpensTheTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.produce(0, 30)
	c := topic.NewCatalog(w.from.Log, w.from.Registry, "")
	_, err := c.AddStorage(t.Context(), name, 4)
	w.must(err)
	_, err = c.Switch(t.Context(), name)
	w.must(err)
	err = w.source.Refresh(t.Context())
	w.must(err)
	w.produce(100, 30)
	_, err = w.mirror(false).CutOver(t.Context())
	w.must(err)
	if _, err := w.source.Produce(t.Context(), []byte("k"), topic.AnyPartition, []commitlog.Record{{Value: []byte("late")}}, nil); !errors.Is(err, fault.Sealed) {
		t.Errorf("a producer at the source after the cut-over: %v", err)
	}
	there, err := topic.NewCatalog(w.to.Log, w.to.Registry, "").Open(t.Context(), name)
	w.must(err)
	defer there.Close()
	if d := there.Document(); d.Produce != 2 || len(d.Storage) != 3 || d.Storage[0].Ends == nil || d.Storage[1].Ends == nil {
		t.Errorf("the definition at the target: %+v", d)
	}
	_, err = there.Produce(t.Context(), []byte("k"), topic.AnyPartition, []commitlog.Record{{Value: []byte("new")}}, nil)
	w.must(err)
	again, err := w.mirror(false).CutOver(t.Context())
	if err != nil || !again.Already {
		t.Errorf("a second cut-over: %+v, %v", again, err)
	}
	if err := w.mirror(true).Run(t.Context()); !errors.Is(err, fault.Conflict) {
		t.Errorf("a mirror behind the cut-over: %v", err)
	}
}

// With one registry for both logs the groups change in place, and only once.
func TestACutOverInOneRegistry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.share()
	w.produce(0, 50)
	g, err := protocol.NewGroup(w.from.Registry, "billing")
	w.must(err)
	_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 1, Assignor: "sticky"})
	w.must(err)
	source := w.contents(w.from, 0)[0]
	at := protocol.Position{Next: source[30].Offset}
	w.must(g.Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{at}}, "test"))
	for range 2 {
		m, err := mirror.New(mirror.Config{From: w.from, To: w.to, SameRegistry: true, Topic: name})
		w.must(err)
		_, err = m.CutOver(t.Context())
		w.must(err)
	}
	u, err := g.Unit(t.Context(), 0)
	w.must(err)
	if got, want := unfinished(w.contents(w.to, 0)[0], u.Checkpoint.Positions[0]), unfinished(source, at); !slices.Equal(got, want) {
		t.Errorf("left to do: %v; want %v", got, want)
	}
}

func TestACutOverNeedsTheConsumersStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	g, err := protocol.NewGroup(w.from.Registry, "billing")
	w.must(err)
	_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 1, Assignor: "sticky"})
	w.must(err)
	s, err := w.from.Registry.OpenSession(t.Context(), 1e9)
	w.must(err)
	defer s.Close(t.Context())
	_, err = w.from.Registry.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{
		Key: g.MemberKey("m1"), Value: registry.Encode(protocol.Member{ID: "m1", Incarnation: "i"}), Session: s.ID(),
	}}})
	w.must(err)
	if _, err := w.mirror(false).CutOver(t.Context()); !errors.Is(err, fault.Conflict) {
		t.Errorf("a cut-over with a running consumer: %v", err)
	}
	if _, err := w.source.Produce(t.Context(), []byte("k"), topic.AnyPartition, []commitlog.Record{{Value: []byte("1")}}, nil); err != nil {
		t.Errorf("the refused cut-over has sealed the source: %v", err)
	}
}

// reads is a log that counts how often its topics are read.
type reads struct {
	driver.Log
	n *atomic.Int64
}

func (l reads) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	return countedTopic{t, l.n}, err
}

type countedTopic struct {
	driver.Topic
	n *atomic.Int64
}

func (t countedTopic) Read(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	t.n.Add(1)
	return t.Topic.Read(ctx, req, dst)
}

// hurried is a source that gets records while it is read, more than were read.
type hurried struct {
	driver.Log
	grow func()
}

func (l hurried) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	return hurriedTopic{t, l.grow}, err
}

type hurriedTopic struct {
	driver.Topic
	grow func()
}

func (t hurriedTopic) Read(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	t.grow()
	return t.Topic.Read(ctx, req, dst)
}

// Producers may be faster than the mirror, and stop only when the source is sealed.
func TestACutOverSealsASourceThatGrowsFasterThanItIsCopied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.produce(0, 30)
	const most = 200
	n, sealed := 0, false
	from := mirror.Side{Registry: w.from.Registry, Log: commitlog.New(hurried{w.origin.Driver(), func() {
		if n++; n > most || sealed {
			return
		}
		var batch []commitlog.Record
		for i := range 20 {
			batch = append(batch, commitlog.Record{Key: []byte("k"), Value: fmt.Append(nil, n, i)})
		}
		_, err := w.source.Produce(t.Context(), []byte("k"), topic.AnyPartition, batch, nil)
		if sealed = errors.Is(err, fault.Sealed); !sealed && err != nil {
			t.Error(err)
		}
	}})}
	m, err := mirror.New(mirror.Config{From: from, To: w.to, Topic: name, BatchBytes: 200})
	w.must(err)
	_, err = m.CutOver(t.Context())
	w.must(errors.Join(err, from.Log.Close()))
	if !sealed {
		t.Errorf("the source was read %d times before it was sealed", n)
	}
	w.wantSame(0)
}

// A group whose handlers are slow for some keys has many finished ranges: to translate them must not
// take a walk through the log for each.
func TestManyFinishedRangesAreCarriedInOnePass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.produce(0, 2000)
	w.must(w.mirror(true).Run(t.Context()))
	source := w.contents(w.from, 0)[0]
	at := protocol.Position{Next: source[0].Offset}
	for i := 2; i < 1900; i += 4 {
		at.Done = append(at.Done, protocol.Range{source[i].Offset, source[i+1].Offset})
	}
	g, err := protocol.NewGroup(w.from.Registry, "billing")
	w.must(err)
	_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 1, Assignor: "sticky"})
	w.must(err)
	w.must(g.Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{at}}, "test"))
	var n atomic.Int64
	w.must(errors.Join(w.from.Log.Close(), w.to.Log.Close()))
	w.from.Log, w.to.Log = commitlog.New(reads{w.origin.Driver(), &n}), commitlog.New(reads{w.store.Driver(), &n})
	_, err = w.mirror(false).CutOver(t.Context())
	w.must(err)
	if n.Load() > 100 {
		t.Errorf("the cut-over read %d times; both sides have 2,000 records", n.Load())
	}
	there, err := protocol.NewGroup(w.to.Registry, "billing")
	w.must(err)
	u, err := there.Unit(t.Context(), 0)
	w.must(err)
	if got, want := unfinished(w.contents(w.to, 0)[0], u.Checkpoint.Positions[0]), unfinished(source, at); !slices.Equal(got, want) {
		t.Errorf("%d records are left to do; want %d", len(got), len(want))
	}
}

// A unit of another layout is of several partitions, and the numbers of what is left are others.
func TestACutOverRefusesAGroupOfAnotherLayout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.produce(0, 10)
	g, err := protocol.NewGroup(w.from.Registry, "billing")
	w.must(err)
	_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 1, Layout: "pairs", Assignor: "sticky"})
	w.must(err)
	if _, err := w.mirror(false).CutOver(t.Context()); !errors.Is(err, fault.Invalid) {
		t.Fatalf("a cut-over with a group of another layout: %v", err)
	}
	w.produce(10, 10) // the source goes on
}
