package filelog_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

const newerSegment = "log/topics/t/0000000000000001.seg"

// written is a log of some records after a power cut that took its control page, so that opening looks at
// every frame.
func written(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem(1)
	l := mustOpen(t, filelog.Config{FS: mem})
	topic := openTopic(t, l, "t", 1)
	for i := range 5 {
		if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: fmt.Appendf(nil, "value %d", i)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	after := mem.Crash()
	if err := after.Remove("log/topics/t/control"); err != nil {
		t.Fatal(err)
	}
	return after
}

// rewrite changes a file in place.
func rewrite(t *testing.T, mem *vfs.Mem, name string, change func(b []byte)) {
	t.Helper()
	f, err := mem.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	change(b)
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.SyncData(); err != nil {
		t.Fatal(err)
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func TestASegmentOfANewerVersionIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	refusedAsNewer(t, "segment header version 2", func(b []byte) {
		n := binary.LittleEndian.Uint32(b[4:])
		binary.LittleEndian.PutUint32(b[16:], 2)
		binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:n], castagnoli))
	})
}

// The last frame would pass for a torn one, and be cut, if it were not for its version.
func TestAFrameOfANewerVersionIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	refusedAsNewer(t, "frame version 2", func(b []byte) {
		h, err := segment.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		var f segment.Frame
		last := int64(0)
		for off := h.Length; segment.Peek(b, h.Epoch(), off, &f) == nil; off += f.Size() {
			last = off
		}
		seed := uint32(((h.Epoch() ^ uint64(last)) * 0x9e3779b97f4a7c15) >> 32)
		frame := b[last:]
		frame[12] = 2
		binary.LittleEndian.PutUint32(frame[76:], crc32.Update(seed, castagnoli, frame[4:76]))
		binary.LittleEndian.PutUint32(frame, crc32.Update(seed, castagnoli, frame[4:f.Length]))
	})
}

func refusedAsNewer(t *testing.T, version string, change func(b []byte)) {
	t.Helper()
	mem := written(t)
	var before string
	rewrite(t, mem, newerSegment, func(b []byte) { change(b); before = string(b) })
	l := mustOpen(t, filelog.Config{FS: mem})
	_, err := l.Topic(t.Context(), "t")
	if !errors.Is(err, commitlog.ErrInvalid) || errors.Is(err, commitlog.ErrCorrupt) {
		t.Errorf("opening gives %v; expected %v", err, commitlog.ErrInvalid)
	}
	for _, word := range []string{version, "upgrade this program", "0000000000000001.seg"} {
		if !strings.Contains(fmt.Sprint(err), word) {
			t.Errorf("%v lacks %q", err, word)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	rewrite(t, mem, newerSegment, func(b []byte) {
		if string(b) != before {
			t.Error("the segment was changed")
		}
	})
}
