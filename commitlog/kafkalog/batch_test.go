package kafkalog

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/limits"
)

func drawRecord(t *rapid.T) driver.Record {
	field := rapid.SampledFrom([][]byte{nil, {}, []byte("a"), bytes.Repeat([]byte("long "), 100)})
	r := driver.Record{Timestamp: rapid.Int64Range(0, 1<<45).Draw(t, "timestamp"), Key: field.Draw(t, "key"), Value: field.Draw(t, "value")}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		r.Headers = append(r.Headers, driver.Header{Name: rapid.SampledFrom([]string{"", "h", "a longer name"}).Draw(t, "name"), Value: field.Draw(t, "header")})
	}
	return r
}

func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func same(a, b driver.Record) bool {
	if a.Timestamp != b.Timestamp || !sameBytes(a.Key, b.Key) || !sameBytes(a.Value, b.Value) || len(a.Headers) != len(b.Headers) {
		return false
	}
	for i := range a.Headers {
		if a.Headers[i].Name != b.Headers[i].Name || !sameBytes(a.Headers[i].Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}

func TestABatchIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, name := range []Compression{None, Snappy, LZ4, Zstd} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			compress, err := (&Config{Compression: name}).compressor()
			if err != nil {
				t.Fatal(err)
			}
			decompress := kgo.DefaultDecompressor()
			rapid.Check(t, func(t *rapid.T) {
				in := rapid.SliceOfN(rapid.Custom(drawRecord), 1, 20).Draw(t, "records")
				var b builder
				b.reset(nil)
				for i := range in {
					b.add(&in[i], in[i].Timestamp, driver.Header{})
				}
				f := &feed{}
				f.add(b.finish(compress, 7, 3, 11), nil)
				if len(f.spans) != 1 || f.spans[0].corrupt != nil || f.end != int64(len(in)) || f.spans[0].h.ProducerID != 7 || f.spans[0].h.ProducerEpoch != 3 || f.spans[0].h.FirstSequence != 11 {
					t.Fatalf("the batch is read as %+v", f)
				}
				out, next, err := f.read(0, math.MaxInt, nil, &arena{}, decompress)
				if err != nil || len(out) != len(in) || next != int64(len(in)) {
					t.Fatalf("%d records of %d, next %d: %v", len(out), len(in), next, err)
				}
				for i := range in {
					if out[i].Offset != int64(i) || !same(out[i], in[i]) {
						t.Fatalf("record %d is %+v; want %+v", i, out[i], in[i])
					}
				}
			})
		})
	}
}

func TestADamagedBatchIsNeverReadAsAnother(t *testing.T) {
	t.Parallel()
	var b builder
	b.reset(nil)
	for range 3 {
		b.add(&driver.Record{Key: []byte("key"), Value: []byte("value")}, 1, driver.Header{})
	}
	good := b.finish(nil, 1, 0, 0)
	for i := range good {
		if i < 16 { // offset, length and leader epoch are the broker's to write
			continue
		}
		bad := bytes.Clone(good)
		bad[i] ^= 4
		f := &feed{}
		f.add(bad, nil)
		recs, _, err := f.read(0, math.MaxInt, nil, &arena{}, kgo.DefaultDecompressor())
		if err == nil || len(recs) > 0 {
			t.Errorf("with byte %d flipped: %d records, %v", i, len(recs), err)
		}
	}
	for n := range good {
		f := &feed{}
		f.add(good[:n], nil)
		if len(f.spans) > 0 {
			t.Errorf("cut off at %d bytes: %+v", n, f.spans)
		}
	}
}

func FuzzBatch(f *testing.F) {
	var b builder
	b.reset(nil)
	b.add(&driver.Record{Key: []byte("k"), Headers: []driver.Header{{Name: "n"}}}, 5, driver.Header{})
	f.Add(b.finish(nil, 1, 2, 3)[batchHeader:])
	d := kgo.DefaultDecompressor()
	f.Fuzz(func(t *testing.T, records []byte) {
		for _, attributes := range []int16{0, 1, 2, 3, 4} {
			fd := &feed{spans: []span{{h: header{last: 100, RecordBatch: kmsg.RecordBatch{NumRecords: 3, Attributes: attributes}}, body: records}}, end: 101}
			recs, next, err := fd.read(0, math.MaxInt, nil, &arena{}, d)
			if err == nil && len(recs) < limits.KafkaReadRecords && next != 101 {
				t.Errorf("%d records, next %d", len(recs), next)
			}
			for _, r := range recs {
				if r.Offset < 0 || r.Offset > 100 {
					t.Errorf("offset %d of a batch from 0 to 100", r.Offset)
				}
			}
		}
	})
}

// What a fresh process reads from the log about a producer is what the one before it wrote.
func TestSequencesOfAppendsAreFoundInTheirBatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := standing{
			epoch:    rapid.Int32Range(0, 3).Draw(t, "epoch"),
			kafkaSeq: rapid.SampledFrom([]int32{0, 1, 500, math.MaxInt32 - 2, math.MaxInt32}).Draw(t, "Kafka's sequence"),
			next:     rapid.SampledFrom([]int64{0, 1, 500, math.MaxInt32 - 2, 1 << 40}).Draw(t, "sequence"),
		}
		id := &identity{id: 1, kafkaID: ourProducers + 1, standing: start, known: true}
		p := &partition{s: &store{l: &kafkaLog{}}}
		want := map[int64]int64{}
		b, offset := &batch{}, int64(0)
		for range rapid.IntRange(1, 6).Draw(t, "appends") {
			w := &pending{req: &driver.AppendRequest{
				Records:  make([]driver.Record, rapid.SampledFrom([]int{1, 1, 1, 3}).Draw(t, "records")),
				Producer: driver.Producer{ID: 1, Epoch: start.epoch, Sequence: id.next},
			}}
			if !b.admit(id, w, batchTarget) {
				break // it needs a header, and those before do without, or the other way round
			}
			want[w.req.Producer.Sequence] = offset
			offset += int64(len(w.req.Records))
		}
		p.encodeAll(b)
		h, _, err := nextBatch(b.data)
		if err != nil {
			t.Fatal(err)
		}
		got := map[int64]int64{}
		if err := sequences(&h, h.Records, func(sequence, first int64) { got[sequence] = first }); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("found %v; want %v", got, want)
		}
		for s, first := range want {
			if got[s] != first {
				t.Fatalf("found %v; want %v", got, want)
			}
		}
		if int64(id.kafkaSeq) != (int64(start.kafkaSeq)+offset)&math.MaxInt32 {
			t.Fatalf("Kafka's sequence goes from %d to %d over %d records", start.kafkaSeq, id.kafkaSeq, offset)
		}
	})
}

// Records without a byte take memory all the same.
func TestReadBoundsRecordsWithoutBytes(t *testing.T) {
	t.Parallel()
	var records []byte
	const n = 3 * limits.KafkaReadRecords
	for i := range int64(n) {
		b := append(binary.AppendVarint([]byte{0, 0}, i), 1, 1, 0) // no key, no value, no headers
		records = append(binary.AppendVarint(records, int64(len(b))), b...)
	}
	f := &feed{spans: []span{{h: header{last: n}, body: records}}, end: n + 1}
	recs, _, err := f.read(0, 1<<20, nil, &arena{}, kgo.DefaultDecompressor())
	if err != nil || len(recs) != limits.KafkaReadRecords {
		t.Fatalf("%d records, %v; expected %d", len(recs), err, limits.KafkaReadRecords)
	}
}
