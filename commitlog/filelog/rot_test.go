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
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/internal/vfs"
)

func segmentPath(n int) string { return fmt.Sprintf("log/topics/t/%016d.seg", n) }

// newest is the number of the newest segment.
func newest(t *testing.T, fsys vfs.FS) int {
	t.Helper()
	n := 1
	for {
		if _, err := fsys.Stat(segmentPath(n + 1)); err != nil {
			return n
		}
		n++
	}
}

// rolled is a log at rest of several segments, and the offset behind its last record.
func rolled(t *testing.T, mem *vfs.Mem) (next int64) {
	t.Helper()
	l := mustOpen(t, smallSegments(mem, driver.Sync))
	topic := openTopic(t, l, "t", 1)
	for range 30 {
		next = send(t, topic, "old", 6000) + 1
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return next
}

// The newest segment is removed, zeroed, overwritten by another topic's, or rotten. It was promised,
// so it is missed: by its name, and no offset that it may have held is given out again.
func TestTheNewestSegmentIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(mem *vfs.Mem, file string){
		"removed": func(mem *vfs.Mem, file string) { _ = mem.Remove(file) },
		"zeroed":  func(mem *vfs.Mem, file string) { rewrite(t, mem, file, func(b []byte) { clear(b) }) },
		"foreign": func(mem *vfs.Mem, file string) {
			rewrite(t, mem, file, func(b []byte) {
				h, err := segment.ParseHeader(b[:segment.Block])
				if err != nil {
					t.Error(err)
					return
				}
				h.TopicID++
				other := segment.AppendHeader(nil, h)
				copy(b, other)
				copy(b[len(b)-len(other):], other)
			})
		},
		"rotten": func(mem *vfs.Mem, file string) {
			rewrite(t, mem, file, func(b []byte) {
				for i := segment.Block; i < len(b)-segment.Block; i += 16 {
					b[i] ^= 0x40
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem(1)
			next := rolled(t, mem)
			file := segmentPath(newest(t, mem))
			lose(mem, file)
			report, err := filelog.Inspect(t.Context(), smallSegments(mem, driver.Sync), nil)
			if err != nil || !report.Damaged() || !strings.HasSuffix(report.Topics[0].Damage[0].File, file) {
				t.Errorf("an inspection finds %+v, %v; expected damage of %s", report, err, file)
			}
			var said testlog.Buffer
			c := smallSegments(mem, driver.Sync)
			c.Logger = said.Logger()
			topic := openTopic(t, open(t, c), "t", 1)
			if at := send(t, topic, "new", 6); at < next {
				t.Errorf("an append went to offset %d; %d and below were acknowledged", at, next-1)
			}
			if !strings.Contains(said.String(), file) {
				t.Errorf("the log of the program does not name %s:\n%s", file, said.String())
			}
			var damage *commitlog.CorruptError
			if _, _, err := topic.Read(t.Context(), 0, next-1, nil, nil); !errors.As(err, &damage) || damage.Resume < next || !strings.HasSuffix(file, damage.File[strings.LastIndex(damage.File, "/"):]) {
				t.Errorf("the last record of the lost segment reads as %v; expected an error that names %s and where to go on", err, file)
			}
		})
	}
}

// A byte of one partition's newest frame rots while others write. A reader of another partition is
// told, perhaps, that something may be lost; what was and is acknowledged there stays readable.
func TestDamageOfOnePartitionSkipsNothingOfAnother(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	writer := openTopic(t, open(t, filelog.Config{FS: mem.Process()}), "t", 2)
	put := func(partition int, value string) int64 {
		at, err := writer.Append(t.Context(), partition, []commitlog.Record{{Value: []byte(value)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	put(1, "one")
	put(0, strings.Repeat("x", 400))
	rewrite(t, mem, newerSegment, func(b []byte) { b[bytes.Index(b, bytes.Repeat([]byte("x"), 400))-60] ^= 1 })
	other, err := open(t, filelog.Config{FS: mem.Process()}).Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	got := map[int64]string{}
	r := other.NewReader(1, 0, nil)
	read := func(until int64) {
		for r.Offset() < until {
			recs, err := r.Next(t.Context())
			var damage *commitlog.CorruptError
			if errors.As(err, &damage) && damage.Resume > r.Offset() {
				r.SetOffset(damage.Resume)
				continue
			}
			if err != nil {
				t.Fatalf("at offset %d: %v", r.Offset(), err)
			}
			for _, rec := range recs {
				got[rec.Offset] = string(rec.Value)
			}
		}
	}
	read(1)
	var damage *commitlog.CorruptError
	if _, _, err := other.Read(t.Context(), 1, 1, nil, nil); errors.As(err, &damage) {
		r.SetOffset(damage.Resume)
	} else if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		at := put(1, fmt.Sprint("later", i))
		read(at + 1)
		if want := fmt.Sprint("later", i); got[at] != want {
			t.Fatalf("%q was acknowledged at %d; the reader got %q", want, at, got[at])
		}
	}
}

// One segment is gone or has lost both headers: its own records, and no others, are lost, and the error
// names it. What is before and behind stays readable.
func TestALostSegmentCostsOnlyItself(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n    int
		lose func(mem *vfs.Mem, file string)
	}{
		"removed": {2, func(mem *vfs.Mem, file string) { _ = mem.Remove(file) }},
		"without headers": {2, func(mem *vfs.Mem, file string) {
			rewrite(t, mem, file, func(b []byte) { b[100] ^= 1; b[len(b)-segment.Block+100] ^= 1 })
		}},
		"the oldest, zeroed": {1, func(mem *vfs.Mem, file string) { rewrite(t, mem, file, func(b []byte) { clear(b) }) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem(1)
			next := rolled(t, mem)
			lost := segmentPath(c.n)
			c.lose(mem, lost)
			topic := openTopic(t, open(t, smallSegments(mem, driver.Sync)), "t", 1)
			wantBounds(t, topic, 0, next)
			read, gaps := 0, 0
			for at := int64(0); at < next; {
				recs, then, err := topic.Read(t.Context(), 0, at, nil, nil)
				var damage *commitlog.CorruptError
				if errors.As(err, &damage) {
					if gaps++; damage.Resume <= at || !strings.HasSuffix(damage.File, lost) {
						t.Fatalf("at offset %d: %v; expected an error that names %s and where to go on", at, err, lost)
					}
					then = damage.Resume
				} else if err != nil {
					t.Fatal(err)
				}
				read += len(recs)
				at = then
			}
			if gaps != 1 || read < int(next)/3 {
				t.Errorf("%d of %d records are readable, with %d gaps; expected one", read, next, gaps)
			}
		})
	}
}

// A trim at level os, and then a power loss: what is acknowledged at level sync afterwards is there,
// and at no offset that was trimmed.
func TestATrimDoesNotReachPastAPowerLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		mem := vfs.NewMem(seed)
		topic := openTopic(t, open(t, smallSegments(mem, driver.OS)), "t", 1)
		for range 50 {
			send(t, topic, "old", 10)
		}
		if err := topic.Trim(t.Context(), 0, 50); err != nil {
			t.Fatal(err)
		}
		after := openTopic(t, open(t, smallSegments(mem.Crash(), driver.Sync)), "t", 1)
		at := send(t, after, "new", 3)
		if got := values(t, after, 0); at < 50 || got[at] != "new" {
			t.Fatalf("seed %d: acknowledged at %d at level sync, and there is %q", seed, at, got[at])
		}
	}
}

// The disk can't read one header any more: the copy at the end of the file serves. When that can't be
// read either, no other segment suffers.
func TestAHeaderThatTheDiskCantRead(t *testing.T) {
	t.Parallel()
	for name, copies := range map[string]int64{"the first": 1, "both": 1 << 40} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem(1)
			next := rolled(t, mem)
			fsys := vfs.Inject(mem, func(op *vfs.Op) error {
				if op.Kind == vfs.OpRead && strings.HasSuffix(segmentPath(2), op.Name) && op.Offset < copies {
					return syscall.EIO
				}
				return nil
			})
			topic := openTopic(t, open(t, smallSegments(fsys, driver.Sync)), "t", 1)
			lost := 0
			for at := range next {
				_, _, err := topic.Read(t.Context(), 0, at, nil, &commitlog.ReadOptions{MaxBytes: 1})
				var damage *commitlog.CorruptError
				switch {
				case errors.As(err, &damage) && copies > 1 && strings.HasSuffix(damage.File, segmentPath(2)) && damage.Resume > at:
					lost++
				case err != nil:
					t.Fatalf("offset %d: %v", at, err)
				}
			}
			if most := int(next) / 2; lost > most || (lost > 0) != (copies > 1) {
				t.Errorf("%d of %d records are lost", lost, next)
			}
		})
	}
}

// That a segment can't be opened now is no damage: nothing is skipped, and the next try reads on.
func TestASegmentThatCantBeOpenedNowIsNotDamaged(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{syscall.EIO, syscall.EMFILE} {
		mem := vfs.NewMem(1)
		next := rolled(t, mem)
		var broken atomic.Bool
		disk := vfs.Inject(mem.Process(), func(op *vfs.Op) error {
			if broken.Load() && op.Kind == vfs.OpOpen && strings.HasSuffix(segmentPath(2), op.Name) {
				return cause
			}
			return nil
		})
		topic := openTopic(t, open(t, smallSegments(disk, driver.Sync)), "t", 1)
		broken.Store(true)
		refused := 0
		for at := range next {
			_, _, err := topic.Read(t.Context(), 0, at, nil, &commitlog.ReadOptions{MaxBytes: 1})
			if errors.Is(err, commitlog.ErrCorrupt) || err != nil && !errors.Is(err, commitlog.ErrUnavailable) {
				t.Fatalf("offset %d, while a segment can't be opened (%v): %v", at, cause, err)
			}
			if err != nil {
				refused++
			}
		}
		if refused == 0 {
			t.Fatal("nobody opened that segment")
		}
		broken.Store(false)
		for at := range next {
			if _, _, err := topic.Read(t.Context(), 0, at, nil, &commitlog.ReadOptions{MaxBytes: 1}); err != nil {
				t.Fatalf("offset %d, once they can: %v", at, err)
			}
		}
		if _, err := mem.Stat("log/topics/t/damage"); err == nil {
			t.Error("damage was noted")
		}
	}
}
