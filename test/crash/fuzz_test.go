package crash

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/segment"
)

const (
	fuzzTopic  = 7
	fuzzNumber = 3
)

func fuzzHeader() *segment.Header {
	return &segment.Header{
		TopicID: fuzzTopic, Number: fuzzNumber, Size: 64 << 10, PrevEnd: 5000, Synced: segment.At(2, 5000), Created: 1, Salt: 2, Bases: []int64{0, 5, 1 << 40},
		Producers: segment.AppendProducers(nil, &segment.Producers{Floor: 2, Forgotten: []uint64{7}, Known: []*segment.Producer{
			{ID: 9, Epoch: 3, Streams: []segment.Stream{{Partition: 1, Sequence: 4, First: []int64{8, 6}}}},
		}}),
	}
}

// fuzzFrame is a sound frame at off that holds any bytes as its records.
func fuzzFrame(off int64, count int, records []byte) []byte {
	b := append(make([]byte, segment.FrameHeader), records...)
	f := segment.Frame{Kind: segment.Records, Partition: 1, Count: count, Base: 5, Time: 1000, MaxTime: 2000}
	segment.SealFrame(b, &f, segment.Epoch(fuzzTopic, fuzzNumber), off)
	return b
}

// Any bytes as a segment: nothing panics, and a walk over them comes to its end.
func FuzzSegment(f *testing.F) {
	recs := segment.AppendRecord(nil, &commitlog.Record{Key: []byte("k"), Value: []byte("v"), Headers: []commitlog.Header{{Name: "h"}}}, 0, 1)
	one := fuzzFrame(0, 1, recs)
	one = append(one, make([]byte, segment.AlignUp(int64(len(one)))-int64(len(one)))...)
	f.Add([]byte(nil), int64(0))
	f.Add(one, int64(0))
	f.Add(append(one, fuzzFrame(int64(len(one)), 2, append(recs, recs...))...), int64(8))
	f.Add(bytes.Repeat([]byte{1}, 200), int64(3))
	f.Fuzz(func(t *testing.T, data []byte, off int64) {
		epoch := segment.Epoch(fuzzTopic, fuzzNumber)
		var frame segment.Frame
		_ = segment.Peek(data, epoch, off, &frame)
		if n := segment.Raw(data, off); n > 0 && segment.Open(data[off:off+int64(n)], epoch, off, &frame) {
			_, _, _ = segment.Decode(data[off:off+int64(n)], &frame, segment.RecordsOptions{Budget: 1 << 20}, nil)
		}
		w := segment.Walker{Data: data, Epoch: epoch}
		for last := int64(-1); ; {
			at, bad, err := w.Next(int64(len(data)), &frame)
			if err != nil {
				break
			}
			if at <= last || bad != nil && (bad.From != at || bad.To <= at || bad.To > int64(len(data))) {
				t.Fatalf("the walk is at %d after %d, damage %+v", at, last, bad)
			}
			last = at
		}
	})
}

// A frame whose checksum holds, with any bytes as its records: a program with a bug wrote it.
func FuzzRecords(f *testing.F) {
	f.Add(1, int64(0), segment.AppendRecord(nil, &commitlog.Record{Key: []byte{}, Value: []byte("value")}, 0, 1))
	f.Add(3, int64(6), segment.AppendRecord(nil, &commitlog.Record{Headers: []commitlog.Header{{Name: "a", Value: []byte("b")}}}, 50, 1))
	f.Add(1<<20, int64(0), []byte{0, 0, 0, 0})
	f.Add(1, int64(0), binary.AppendUvarint([]byte{0, 1, 1}, math.MaxUint64))
	f.Add(1, int64(0), binary.AppendUvarint([]byte{0}, math.MaxUint64))
	f.Fuzz(func(t *testing.T, count int, from int64, records []byte) {
		b := fuzzFrame(4096, count, records)
		var frame segment.Frame
		if !segment.Open(b, segment.Epoch(fuzzTopic, fuzzNumber), 4096, &frame) {
			t.Fatal("a sound frame is refused")
		}
		if segment.Open(b, segment.Epoch(fuzzTopic, fuzzNumber), 4104, &frame) || segment.Open(b, segment.Epoch(fuzzTopic, fuzzNumber+1), 4096, &frame) {
			t.Fatal("a frame passes in a place that is not its own")
		}
		recs, _, err := segment.Decode(b, &frame, segment.RecordsOptions{From: from, Budget: math.MaxInt}, nil)
		if err == nil && len(recs) > frame.Count {
			t.Fatalf("%d records of a frame of %d", len(recs), frame.Count)
		}
		last := int64(math.MinInt64)
		for _, r := range recs {
			if r.Offset < from || r.Offset <= last {
				t.Fatalf("offset %d after %d, from %d", r.Offset, last, from)
			}
			last = r.Offset
		}
	})
}

func FuzzHeader(f *testing.F) {
	sound := segment.AppendHeader(nil, fuzzHeader())
	f.Add(sound, true)
	f.Add(sound[:100], true)
	f.Add([]byte{}, false)
	many := bytes.Clone(sound)
	binary.LittleEndian.PutUint32(many[20:], math.MaxUint32) // partitions
	f.Add(many, true)
	many = bytes.Clone(sound)
	binary.LittleEndian.PutUint32(many[80:], math.MaxUint32) // producers
	f.Add(many, true)
	f.Fuzz(func(t *testing.T, b []byte, repair bool) {
		if repair && len(b) >= 4 {
			binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], crc32.MakeTable(crc32.Castagnoli)))
		}
		_, _ = segment.HeaderLength(b)
		_, _ = segment.FindCopy(b)
		h, err := segment.ParseHeader(b)
		if err != nil {
			return
		}
		again, err := segment.ParseHeader(segment.AppendHeader(nil, h))
		if err != nil || len(again.Bases) != len(h.Bases) || len(again.Producers) != len(h.Producers) {
			t.Fatalf("a header that was read and written again: %+v, %v", again, err)
		}
	})
}

func FuzzIndex(f *testing.F) {
	h := fuzzHeader()
	b := segment.AppendHeader(nil, h)
	parsed, err := segment.ParseHeader(b)
	if err != nil {
		f.Fatal(err)
	}
	off := int64(len(b))
	b = append(b, fuzzFrame(off, 2, []byte{0, 0, 0, 0, 0, 0, 0, 0})...)
	end := segment.AlignUp(int64(len(b)))
	b = append(b, make([]byte, end-int64(len(b)))...)
	sound := segment.BuildIndex(b, parsed, []int64{end, end, end})
	f.Add(sound, int64(5), true)
	f.Add(sound[:40], int64(0), false)
	f.Add(bytes.Clone(sound[:60]), int64(0), true)
	long := bytes.Clone(sound)
	binary.LittleEndian.PutUint32(long[52:], math.MaxUint32) // frames of partition 0
	f.Add(long, int64(0), true)
	f.Fuzz(func(t *testing.T, x []byte, offset int64, repair bool) {
		if repair && len(x) >= 4 {
			binary.LittleEndian.PutUint32(x, crc32.Checksum(x[4:], crc32.MakeTable(crc32.Castagnoli)))
		}
		index, err := segment.ParseIndex(x, parsed, end)
		if err != nil {
			return
		}
		for p := range len(parsed.Bases) {
			n := index.Len(p)
			for i := range n {
				_ = index.At(p, i)
			}
			if i := index.Search(p, offset); i < -1 || i >= n {
				t.Fatalf("search finds frame %d of %d", i, n)
			}
			_ = index.MaxTime(p)
		}
	})
}

// What is encoded comes back, field by field, in every place and from every offset.
func TestFramesComeBack(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.Just([]byte(nil)), rapid.Just([]byte{}), rapid.SliceOfN(rapid.Byte(), 1, 300))
	rapid.Check(t, func(t *rapid.T) {
		frame := segment.Frame{
			Kind: segment.Records, Partition: rapid.IntRange(0, 4095).Draw(t, "partition"), Base: rapid.Int64Range(0, 1<<60).Draw(t, "base"),
			Time: rapid.Int64().Draw(t, "time"), Prev: rapid.Uint32().Draw(t, "prev"), Synced: segment.Pos(rapid.Uint64().Draw(t, "synced")),
			ProducerID: rapid.Uint64().Draw(t, "producer"), Sequence: rapid.Int64Min(0).Draw(t, "sequence"), ProducerEpoch: rapid.Int32Min(0).Draw(t, "epoch"),
		}
		b := make([]byte, segment.FrameHeader)
		var want []commitlog.Record
		for i := range rapid.IntRange(1, 8).Draw(t, "records") {
			r := commitlog.Record{
				Offset: frame.Base + int64(i), Timestamp: rapid.Int64Range(1, 1<<50).Draw(t, "timestamp"),
				Key: text.Draw(t, "key"), Value: text.Draw(t, "value"),
			}
			for range rapid.IntRange(0, 3).Draw(t, "headers") {
				r.Headers = append(r.Headers, commitlog.Header{Name: rapid.String().Draw(t, "name"), Value: text.Draw(t, "header")})
			}
			want = append(want, r)
			b = segment.AppendRecord(b, &r, frame.Time, 1)
			frame.MaxTime = max(frame.MaxTime, r.Timestamp)
			frame.Count++
		}
		off, epoch := 8*rapid.Int64Range(0, 1<<28).Draw(t, "place"), rapid.Uint64().Draw(t, "epoch of the segment")
		segment.SealFrame(b, &frame, epoch, off)
		var got segment.Frame
		if !segment.Open(b, epoch, off, &got) || got != frame {
			t.Fatalf("frame %+v; want %+v", got, frame)
		}
		from := rapid.IntRange(0, len(want)-1).Draw(t, "from")
		recs, _, err := segment.Decode(b, &got, segment.RecordsOptions{From: want[from].Offset, Budget: math.MaxInt}, nil)
		if err != nil || !reflect.DeepEqual(recs, want[from:]) {
			t.Fatalf("records %+v, %v; want %+v", recs, err, want[from:])
		}
		bit := rapid.IntRange(0, 8*len(b)-1).Draw(t, "bit")
		b[bit/8] ^= 1 << (bit % 8)
		if segment.Open(b, epoch, off, &got) {
			t.Fatalf("bit %d is flipped and the frame passes", bit)
		}
	})
}
