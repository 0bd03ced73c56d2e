package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/mirror"
	"github.com/ringfence/ringfence/registry"
	regdriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/topic"
)

// holds is a log that notes what its topics were told to hold, by topic and name.
type holds struct {
	driver.Log
	mu   sync.Mutex
	held map[string]map[string][]int64
	told chan struct{} // there is a first hold; closed
	once sync.Once
	// unread: nobody reads before there is a hold.
	unread bool
}

func (l *holds) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	return heldTopic{t, l}, err
}

type heldTopic struct {
	driver.Topic
	l *holds
}

func (t heldTopic) Hold(ctx context.Context, name string, offsets []int64) error {
	t.l.mu.Lock()
	of := t.Config().Name
	if t.l.held[of] == nil {
		t.l.held[of] = map[string][]int64{}
	}
	t.l.held[of][name] = slices.Clone(offsets)
	t.l.mu.Unlock()
	t.l.once.Do(func() { close(t.l.told) })
	return t.Topic.Hold(ctx, name, offsets)
}

func (t heldTopic) Read(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	if t.l.unread {
		select {
		case <-t.l.told:
		case <-ctx.Done():
			return dst, req.Offset, ctx.Err()
		}
	}
	return t.Topic.Read(ctx, req, dst)
}

// of is what a storage topic holds, over all names; nil: nothing.
func (l *holds) of(storage int) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lowest []int64
	for of, held := range l.held {
		for _, offsets := range held {
			if topic.IsStorage(of, fmt.Sprintf("%s..%d", name, storage)) && (lowest == nil || slices.Compare(offsets, lowest) < 0) {
				lowest = offsets
			}
		}
	}
	return lowest
}

// newHeldWorld is a world whose source drops records by itself, and notes what is held.
func newHeldWorld(t testing.TB, partitions int) (*world, *holds) {
	w := newWorld(t, partitions)
	l := &holds{Log: w.origin.Driver(), held: map[string]map[string][]int64{}, told: make(chan struct{})}
	w.must(w.source.Close())
	w.must(w.from.Log.Close())
	w.from.Log = commitlog.New(l)
	c := topic.NewCatalog(w.from.Log, w.from.Registry, "")
	w.must(c.Delete(t.Context(), name, ""))
	w.must(c.Create(t.Context(), name, topic.Config{Partitions: partitions, RetentionBytes: 1 << 40}))
	var err error
	w.source, err = c.Open(t.Context(), name)
	w.must(err)
	return w, l
}

// grow switches producers of the source to a new storage topic.
func (w *world) grow(partitions int) {
	w.Helper()
	c := topic.NewCatalog(w.from.Log, w.from.Registry, "")
	_, err := c.AddStorage(w.Context(), name, partitions)
	w.must(err)
	_, err = c.Switch(w.Context(), name)
	w.must(err)
	w.must(w.source.Refresh(w.Context()))
}

// end is where a partition of the source ends.
func (w *world) end(storage, partition int) int64 {
	w.Helper()
	st, err := w.source.Storage(storage)
	w.must(err)
	b, err := st.Bounds(w.Context(), partition)
	w.must(err)
	return b.Next
}

// Each storage topic is held at what was copied of it: not at what was copied of another one.
func TestEachStorageTopicIsHeldByItsOwnProgress(t *testing.T) {
	t.Parallel()
	w, l := newHeldWorld(t, 1)
	w.produce(0, 10)
	w.grow(1)
	w.produce(100, 30)
	w.must(w.mirror(true).Run(t.Context()))
	w.must(w.mirror(true).Run(t.Context())) // begins with a look at what the first has copied
	for storage := range 2 {
		if got, want := l.of(storage), []int64{w.end(storage, 0)}; !slices.Equal(got, want) {
			t.Errorf("storage topic %d is held at %v; it was copied up to %v", storage, got, want)
		}
	}
}

// blind is a registry in which some reads of a mirror's states fail.
type blind struct {
	regdriver.Registry
	left *atomic.Int64
}

func (b blind) List(ctx context.Context, prefix string) (regdriver.Snapshot, error) {
	if strings.Contains(prefix, "/copies/") && b.left.Add(-1) >= 0 {
		return regdriver.Snapshot{}, fmt.Errorf("cut off: %w", fault.Unavailable)
	}
	return b.Registry.List(ctx, prefix)
}

// A registry that does not answer at the first look does not leave the source unheld.
func TestAHoldThatFailedIsTriedAgain(t *testing.T) {
	t.Parallel()
	w, l := newHeldWorld(t, 1)
	w.produce(0, 10)
	b := blind{w.to.Registry, new(atomic.Int64)}
	b.left.Store(2) // the first look of the copy, and that of the hold
	w.to.Registry = registry.New(b)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	m := w.mirror(false)
	go func() { ended <- m.Run(ctx) }()
	select {
	case <-l.told:
	case <-time.After(20 * time.Second):
		t.Error("nothing is ever held")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the mirror ended with %v", err)
	}
}

// A mirror that copies only what is there now does not give up holding at the first error either.
func TestAHoldOfAMirrorThatEndsIsTriedAgain(t *testing.T) {
	t.Parallel()
	w, l := newHeldWorld(t, 1)
	w.produce(0, 10)
	l.unread = true
	b := blind{w.to.Registry, new(atomic.Int64)}
	b.left.Store(2)
	w.to.Registry = registry.New(b)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.mirror(true).Run(ctx); err != nil {
		t.Errorf("it copies what is held, and nothing was: %v", err)
	}
}

// What a mirror holds is its own: a group of whatever name and a mirror to another target hold theirs.
// A cut-over releases it, and so does whoever abandons the mirror.
func TestTheHoldOfAMirrorIsItsOwnUntilItEnds(t *testing.T) {
	t.Parallel()
	w, l := newHeldWorld(t, 1)
	w.produce(0, 10)
	to := func(target string) *mirror.Mirror {
		side := w.to
		side.Name = target
		m, err := mirror.New(mirror.Config{From: w.from, To: side, Topic: name, Once: true})
		w.must(err)
		return m
	}
	held := func(target string) []int64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.held[w.storageName(w.from, 0)]["mirror:"+target]
	}
	w.must(to("kafka://a").Run(t.Context()))
	w.must(to("kafka://b").Run(t.Context()))
	for hold := range l.held[w.storageName(w.from, 0)] {
		if registry.CheckID("group", hold) == nil {
			t.Errorf("a group may be named as a mirror's hold: %q", hold)
		}
	}
	if a, b := held("kafka://a"), held("kafka://b"); a == nil || b == nil {
		t.Errorf("two mirrors hold %v and %v", a, b)
	}
	w.must(mirror.Abandon(t.Context(), w.from, name, "kafka://a"))
	if a, b := held("kafka://a"), held("kafka://b"); !slices.Equal(a, []int64{-1}) || slices.Equal(b, []int64{-1}) {
		t.Errorf("one mirror was abandoned: they hold %v and %v", a, b)
	}
	_, err := to("kafka://b").CutOver(t.Context())
	w.must(err)
	if b := held("kafka://b"); !slices.Equal(b, []int64{-1}) {
		t.Errorf("after the cut-over %v is held", b)
	}
	if err := mirror.Abandon(t.Context(), w.from, "missing", "kafka://a"); !errors.Is(err, fault.NotFound) {
		t.Errorf("an unknown topic is abandoned: %v", err)
	}
}

// newKeepingWorld is a world whose topic keeps so many bytes beyond what is held, with a group that
// has processed everything before next and holds the source accordingly.
func newKeepingWorld(t *testing.T, bytes int64, next int64) (*world, *protocol.Group) {
	w := newWorld(t, 1)
	w.must(w.source.Close())
	c := topic.NewCatalog(w.from.Log, w.from.Registry, "")
	w.must(c.Delete(t.Context(), name, ""))
	w.must(c.Create(t.Context(), name, topic.Config{Partitions: 1, RetentionBytes: bytes}))
	var err error
	w.source, err = c.Open(t.Context(), name)
	w.must(err)
	g, err := protocol.NewGroup(w.from.Registry, "billing")
	w.must(err)
	_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 1, Assignor: "sticky"})
	w.must(err)
	w.must(g.Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{{Next: next}}}, "test"))
	st, err := w.source.Storage(0)
	w.must(err)
	w.must(st.Hold(t.Context(), "billing", []int64{next}))
	return w, g
}

// left are the values that the group has to process at one side.
func (w *world) left(side mirror.Side) []string {
	w.Helper()
	g, err := protocol.NewGroup(side.Registry, "billing")
	w.must(err)
	u, err := g.Unit(w.Context(), 0)
	w.must(err)
	return unfinished(w.contents(side, 0)[0], u.Checkpoint.Positions[0])
}

// The target has the retention of the source, and no group that consumes there until the cut-over.
func TestTheTargetKeepsWhatItsGroupsHaveNotProcessed(t *testing.T) {
	t.Parallel()
	w, _ := newKeepingWorld(t, 500, 0)
	w.produce(0, 150)
	// Another group, of an earlier name, needs nothing.
	ahead, err := protocol.NewGroup(w.from.Registry, "ahead")
	w.must(err)
	_, err = ahead.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 1, Assignor: "sticky"})
	w.must(err)
	w.must(ahead.Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{{Next: w.end(0, 0)}}}, "test"))
	w.must(w.mirror(true).Run(t.Context()))
	w.produce(150, 150)
	_, err = w.mirror(false).CutOver(t.Context())
	w.must(err)
	want := w.left(w.from)
	if got := w.left(w.to); len(want) < 300 || !slices.Equal(got, want) {
		t.Fatalf("the group had %d records to process, and has %d at the target", len(want), len(got))
	}
	// From now on the group's own hold keeps them, and nothing else.
	c := topic.NewCatalog(w.to.Log, w.to.Registry, "")
	moved, err := c.Open(t.Context(), name)
	w.must(err)
	defer moved.Close()
	add := func() {
		_, err := moved.Produce(t.Context(), []byte("k"), topic.AnyPartition, []commitlog.Record{{Key: []byte("k"), Value: []byte("more")}}, nil)
		w.must(err)
	}
	add()
	if got := w.left(w.to); !slices.Equal(got, want) {
		t.Errorf("after the cut-over %d of %d records are kept", len(got), len(want))
	}
	st, err := moved.Storage(0)
	w.must(err)
	w.must(st.Hold(t.Context(), "billing", commitlog.NoHold(1)))
	w.must(st.Hold(t.Context(), "ahead", commitlog.NoHold(1)))
	add()
	if b, err := st.Bounds(t.Context(), 0); err != nil || b.First == 0 {
		t.Errorf("bounds %+v, %v: the mirror holds the target for ever", b, err)
	}
}

// What the source has dropped below a group's position can't be told apart from what it still needs.
func TestAPositionBelowTheFirstRecordIsRefused(t *testing.T) {
	t.Parallel()
	w, g := newKeepingWorld(t, 1<<40, 0)
	w.produce(0, 40)
	st, err := w.source.Storage(0)
	w.must(err)
	w.must(st.Trim(t.Context(), 0, 10))
	_, err = w.mirror(false).CutOver(t.Context())
	if !errors.Is(err, fault.OutOfRange) || !strings.Contains(err.Error(), "billing") {
		t.Fatalf("a group that needs what was dropped is carried over: %v", err)
	}
	b, err := st.Bounds(t.Context(), 0)
	w.must(err)
	w.must(g.Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{{Next: b.First}}}, "as the error says"))
	_, err = w.mirror(false).CutOver(t.Context())
	w.must(err)
	if want, got := w.left(w.from), w.left(w.to); !slices.Equal(want, got) {
		t.Errorf("%d records to process became %d", len(want), len(got))
	}
}

// A mirror that is never cut over does not keep its target for ever: what the source has dropped,
// nobody needs there.
func TestTheTargetIsHeldFromWhereTheSourceBegins(t *testing.T) {
	t.Parallel()
	w, _ := newKeepingWorld(t, 1<<40, 0)
	l := &holds{Log: w.store.Driver(), held: map[string]map[string][]int64{}, told: make(chan struct{})}
	w.must(w.to.Log.Close())
	w.to.Log = commitlog.New(l)
	const appends = 200
	for i := range appends { // an anchor is noted every 16,384 records
		recs := make([]commitlog.Record, 250)
		for j := range recs {
			recs[j] = commitlog.Record{Key: []byte("k"), Value: fmt.Append(nil, i)}
		}
		_, err := w.source.Produce(t.Context(), []byte("k"), topic.AnyPartition, recs, nil)
		w.must(err)
	}
	m, err := mirror.New(mirror.Config{From: w.from, To: w.to, Topic: name, Once: true})
	w.must(err)
	w.must(m.Run(t.Context()))
	m, err = mirror.New(mirror.Config{From: w.from, To: w.to, Topic: name, Once: true})
	w.must(err)
	w.must(m.Run(t.Context())) // begins with a look at what the first has copied
	if at := l.of(0); !slices.Equal(at, []int64{0}) {
		t.Fatalf("the target is held at %v while the source keeps everything", at)
	}
	st, err := w.source.Storage(0)
	w.must(err)
	w.must(st.Trim(t.Context(), 0, w.end(0, 0)-1))
	m, err = mirror.New(mirror.Config{From: w.from, To: w.to, Topic: name, Once: true})
	w.must(err)
	w.must(m.Run(t.Context()))
	if at := l.of(0); len(at) != 1 || at[0] < appends*250/2 || at[0] >= appends*250 {
		t.Errorf("the target is held at %v; the source begins at its last record, and %d were copied", at, appends*250)
	}
}
