package filelog_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// failing is a file system whose operations of one kind on segments fail while it is broken.
type failing struct {
	vfs.FS
	broken atomic.Bool
	fails  atomic.Int32 // so many more writes of records fail, whether it is broken or not
}

func failingOn(fsys vfs.FS, kind vfs.OpKind, err error) *failing {
	f := &failing{}
	f.FS = vfs.Inject(fsys, func(op *vfs.Op) error {
		if op.Kind != kind || !strings.HasSuffix(op.Name, ".seg") {
			return nil
		}
		if f.broken.Load() || bytes.Contains(op.Data, []byte("nobody knows")) && f.fails.Add(-1) >= 0 {
			return err
		}
		return nil
	})
	return f
}

func smallSegments(fsys vfs.FS, level driver.Durability) filelog.Config {
	return filelog.Config{FS: fsys, SegmentBytes: filelog.MinSegmentBytes, Options: driver.Options{Durability: level}}
}

// send appends one record of so many bytes, which says what it is.
func send(t *testing.T, topic *commitlog.Topic, name string, size int) int64 {
	t.Helper()
	at, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: fmt.Appendf(nil, "%-*s", size, name)}}, nil)
	if err != nil {
		t.Fatalf("append %s: %v", name, err)
	}
	return at
}

// values reads a partition from its first offset to its last.
func values(t *testing.T, topic *commitlog.Topic, partition int) map[int64]string {
	t.Helper()
	b, err := topic.Bounds(t.Context(), partition)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int64]string{}
	for at := b.First; at < b.Next; {
		recs, next, err := topic.Read(t.Context(), partition, at, nil, nil)
		if err != nil {
			t.Fatalf("read from %d of [%d, %d): %v", at, b.First, b.Next, err)
		}
		for _, r := range recs {
			all[r.Offset] = strings.TrimSpace(string(r.Value))
		}
		at = next
	}
	return all
}

func segmentFiles(t *testing.T, fsys vfs.FS) int {
	t.Helper()
	entries, err := fsys.ReadDir("log/topics/t")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".seg") {
			n++
		}
	}
	return n
}

// A process that has no descriptors left can't sync. That says nothing about the segment.
func TestASegmentThatOneProcessCantOpenIsNotBroken(t *testing.T) {
	t.Parallel()
	for seed := range uint64(16) { // whether the poor process has anything to sync is a race each time
		mem := vfs.NewMem(seed + 1)
		topic := openTopic(t, open(t, smallSegments(mem.Process(), driver.OS)), "t", 1)
		send(t, topic, "one", 3)
		poor := failingOn(mem.Process(), vfs.OpOpen, syscall.EMFILE)
		poor.broken.Store(true)
		if _, err := open(t, smallSegments(poor, driver.Sync)).Topic(t.Context(), "t"); err != nil {
			t.Logf("the poor process: %v", err)
		}
		send(t, topic, "two", 3)
		if n := segmentFiles(t, mem); n != 1 {
			t.Fatalf("two small records lie in %d segments; expected 1", n)
		}
	}
}

// Processes at both levels write one topic, and a write or a sync fails at level sync while the
// other has rolled without syncing. Who reads at level sync sees nothing that a power loss takes
// away, and once writing works again everything that was acknowledged is durable.
func TestAnErrorBehindAnUnsyncedRollShowsNothingThatIsNotDurable(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]vfs.OpKind{"write": vfs.OpWrite, "sync": vfs.OpSync} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(8) {
				errorBehindARoll(t, seed, kind)
			}
		})
	}
}

func errorBehindARoll(t *testing.T, seed uint64, kind vfs.OpKind) {
	t.Helper()
	mem := vfs.NewMem(seed)
	lazy := openTopic(t, open(t, smallSegments(mem.Process(), driver.OS)), "t", 1)
	disk := failingOn(mem.Process(), kind, syscall.EIO)
	strict := openTopic(t, open(t, smallSegments(disk, driver.Sync)), "t", 1)
	want := map[int64]string{send(t, strict, "first", 5): "first"}
	for i := range 12 {
		name := fmt.Sprint("kept", i)
		want[send(t, lazy, name, 9000)] = name
	}
	disk.broken.Store(true)
	if _, err := strict.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("nobody knows")}}, nil); err == nil {
		t.Fatal("an append was acknowledged though its disk fails")
	}
	disk.broken.Store(false)
	seen := values(t, strict, 0)
	for range 4 {
		after := openTopic(t, open(t, smallSegments(mem.Crash(), driver.Sync)), "t", 1)
		got := values(t, after, 0)
		for at, value := range seen {
			if got[at] != value {
				t.Fatalf("seed %d: a reader at level sync saw %q at %d; after a power loss there is %q", seed, value, at, got[at])
			}
		}
	}
	want[send(t, strict, "last", 4)] = "last"
	for _, topic := range []*commitlog.Topic{strict, openTopic(t, open(t, smallSegments(mem.Crash(), driver.Sync)), "t", 1)} {
		got := values(t, topic, 0)
		for at, value := range want {
			if got[at] != value {
				t.Fatalf("seed %d: %q was acknowledged at %d; there is %q", seed, value, at, got[at])
			}
		}
	}
}

// What a full disk cut off is gone, all of it: not only the first frame's header. A frame behind it
// is sound, and must not come back when something in front of it is damaged one day.
func TestNothingOfAWriteThatDidNotFitComesBack(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	writes, queued := make(chan struct{}), make(chan struct{})
	var made atomic.Bool
	fsys := vfs.Inject(mem, func(op *vfs.Op) error {
		switch {
		case op.Kind != vfs.OpWrite:
		case op.Length > 64<<10 && made.Load(): // zeros ahead of the log would hide what stays
			return syscall.ENOSPC
		case bytes.Contains(op.Data, []byte("the first")):
			close(writes)
			<-queued
		case bytes.Contains(op.Data, []byte("too much")):
			op.Short = op.Length - 4096
			return syscall.ENOSPC
		}
		return nil
	})
	topic := openTopic(t, open(t, filelog.Config{FS: fsys}), "t", 1)
	made.Store(true)
	// While the first one is written, the others queue up: they are one write.
	answers := make(chan error, 5)
	for i, size := range []int{10, 16000, 10, 10, 8000} {
		opts := &commitlog.AppendOptions{Producer: commitlog.Producer{ID: uint64(i + 1)}}
		name := "too much"
		if i == 0 {
			name = "the first"
		}
		value := fmt.Appendf(nil, "%-*s", size, name)
		topic.AppendAsync(t.Context(), 0, []commitlog.Record{{Value: value}}, opts, func(_ int64, err error) { answers <- err })
		if i == 0 {
			<-writes
		}
	}
	close(queued)
	refused := 0
	for range 5 {
		if err := <-answers; errors.Is(err, commitlog.ErrNotAppended) {
			refused++
		}
	}
	if refused != 4 {
		t.Fatalf("%d of 5 appends were refused; expected all of one write", refused)
	}
	sound := 0
	for n := range segmentFiles(t, mem) {
		b := read(t, mem, fmt.Sprintf("log/topics/t/%016d.seg", n+1))
		h, err := segment.ParseHeader(b[:segment.HeaderSize(1)])
		if err != nil {
			t.Fatal(err)
		}
		for at := segment.Find(b, h.Epoch(), 0); at >= 0; at = segment.Find(b, h.Epoch(), at+segment.Align) {
			sound++
		}
	}
	if sound != 1 {
		t.Errorf("%d sound frames stand in the segment; 1 append was acknowledged", sound)
	}
}

// Two errors in a row leave a segment without a frame. It counts all the same, since the header behind it
// names it: what was acknowledged behind both is there after a power loss, and all headers name the one
// before.
func TestAHeaderNamesTheOneBefore(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	disk := failingOn(mem.Process(), vfs.OpWrite, syscall.EIO)
	topic := openTopic(t, open(t, smallSegments(disk, driver.Sync)), "t", 1)
	want := map[int64]string{}
	for i := range 12 {
		name := fmt.Sprint("kept", i)
		want[send(t, topic, name, 9000)] = name
	}
	disk.fails.Store(2) // appends, each of which finds a new segment
	for range 2 {
		if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("nobody knows")}}, nil); err == nil {
			t.Fatal("an append was acknowledged though its disk fails")
		}
	}
	want[send(t, topic, "last", 4)] = "last"

	names := segmentFiles(t, mem)
	var before uint32
	for n := 1; n <= names; n++ {
		h, err := segment.ParseHeader(read(t, mem, fmt.Sprintf("log/topics/t/%016d.seg", n)))
		if err != nil {
			t.Fatalf("segment %d: %v", n, err)
		}
		if h.PrevCRC != before {
			t.Errorf("the header of segment %d names %x; expected that of the segment before, %x", n, h.PrevCRC, before)
		}
		before = h.CRC
	}
	if names < 4 {
		t.Fatalf("there are %d segments; expected that each error begins one", names)
	}
	for range 16 {
		got := values(t, openTopic(t, open(t, smallSegments(mem.Crash(), driver.Sync)), "t", 1), 0)
		for at, value := range want {
			if got[at] != value {
				t.Fatalf("%q was acknowledged at %d; after a power loss there is %q", value, at, got[at])
			}
		}
	}
}
