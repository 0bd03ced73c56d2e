package filelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// A file of offsets that is accepted has one for each partition and is what they are written as;
// any other is damage. Its checksum is put right, so that it is not all that is tried.
func FuzzOffsets(f *testing.F) {
	f.Add(encodeOffsets("h", []int64{3, -1}), 2, true)
	f.Add(encodeOffsets("", []int64{0}), 2, true)
	f.Add([]byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, 0, true)
	f.Add([]byte{}, 1, false)
	f.Fuzz(func(t *testing.T, b []byte, partitions int, sum bool) {
		partitions = min(max(partitions, 1), 64)
		if sum && len(b) >= 4 {
			b = slices.Clone(b)
			binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], crcTable))
		}
		offsets, err := decodeOffsets(b, partitions)
		if err != nil {
			if !errors.Is(err, fault.Corrupt) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		name := b[8 : len(b)-4-8*partitions]
		if again := encodeOffsets(string(name), offsets); len(offsets) != partitions || !slices.Equal(again, b) {
			t.Fatalf("% x is accepted as %v of %d, which is written as % x", b, offsets, partitions, again)
		}
	})
}

// A topic file, with a checksum that holds or not, makes a topic that can be opened, or an error
// of a kind.
func FuzzTopicFile(f *testing.F) {
	sound, err := encodeSummed(&meta{Version: metaVersion, ID: 7, Config: driver.TopicConfig{Name: "t", Partitions: 3}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sound, false)
	f.Add([]byte(`{"version":1,"id":"7","config":{"Partitions":9223372036854775807}}`), true)
	f.Add([]byte(`{"version":2,"config":{"Partitions":1}}`), true)
	f.Add([]byte("null"), true)
	f.Fuzz(func(t *testing.T, text []byte, sum bool) {
		if sum {
			text = fmt.Appendf(nil, "crc32c %08x\n%s\n", crc32.Checksum(text, crcTable), text)
		}
		mem := vfs.NewMem(1)
		if err := replaceFile(mem, metaFile, text); err != nil {
			t.Fatal(err)
		}
		m, err := readMeta(mem)
		if err != nil {
			if !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.Invalid) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		if m.Version > metaVersion || m.Config.Partitions < 1 || m.Config.Partitions > commitlog.MaxPartitions {
			t.Fatalf("%q is accepted as %+v", text, m)
		}
		b, err := encodeSummed(m)
		if err != nil {
			t.Fatal(err)
		}
		var again meta
		if err := decodeSummed(b, &again); err != nil || again != *m {
			t.Fatalf("%+v comes back as %+v, %v", m, again, err)
		}
		b[len(b)-3] ^= 1
		if err := decodeSummed(b, &again); !errors.Is(err, fault.Corrupt) {
			t.Fatalf("a flipped bit passes: %v", err)
		}
	})
}
