package kafkalog

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/memtest"
)

// zeros is so many bytes, compressed.
func zeros(t *testing.T, codec kgo.CompressionCodecType, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case kgo.CodecGzip:
		w = gzip.NewWriter(&out)
	case kgo.CodecLz4:
		w = lz4.NewWriter(&out)
	case kgo.CodecZstd:
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default: // snappy: only what is declared counts
		b := append(append([]byte{}, xerial...), 0, 0, 0, 1, 0, 0, 0, 1)
		for block := 16 << 20; n > 0; n -= block {
			size := binary.AppendUvarint(nil, uint64(min(n, block)))
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(size))), size...)
		}
		return b
	}
	chunk := make([]byte, 1<<20)
	for ; n > 0; n -= len(chunk) {
		if _, err := w.Write(chunk[:min(n, len(chunk))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Some kB of Kafka would take gigabytes of every consumer.
func TestABatchThatGrowsTooLargeIsAnError(t *testing.T) {
	for _, codec := range []kgo.CompressionCodecType{kgo.CodecGzip, kgo.CodecSnappy, kgo.CodecLz4, kgo.CodecZstd} {
		bomb := zeros(t, codec, 2*limits.KafkaBatchBytes)
		memtest.AtMost(t, 8*limits.KafkaBatchBytes, codec, func() {
			if _, err := newInflate().Decompress(bomb, codec); !errors.Is(err, errBomb) {
				t.Errorf("codec %d: %v; expected that it is too large", codec, err)
			}
		})
		if codec == kgo.CodecSnappy {
			continue
		}
		sound := zeros(t, codec, 20<<20) // more than we write
		if plain, err := newInflate().Decompress(sound, codec); err != nil || len(plain) != 20<<20 {
			t.Errorf("codec %d: %d bytes, %v", codec, len(plain), err)
		}
	}
}

// endless is a bomb that goes on for as long as somebody reads, or almost.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	if e.read >= 4*limits.KafkaBatchBytes {
		return 0, io.EOF
	}
	e.read += len(b)
	return len(b), nil
}

// Nothing is read of what is beyond the limit, however much there is.
func TestWhatDecompressesIsReadToItsLimit(t *testing.T) {
	var e endless
	if _, err := readMost(&e, 100); !errors.Is(err, errBomb) || e.read > limits.KafkaBatchBytes+1 {
		t.Errorf("%d bytes were read, %v; expected that it is too large, known from %d bytes", e.read, err, limits.KafkaBatchBytes+1)
	}
}

// Who reads is told where the batch is, and where to go on.
func TestABatchThatIsTooLargeIsNamed(t *testing.T) {
	l := &kafkaLog{decompress: newInflate()}
	p := &partition{s: &store{l: l, kafkaName: "k"}, index: 3}
	f := &feed{start: 10, end: 15, spans: []span{{h: header{base: 10, last: 14, attributes: int16(kgo.CodecZstd)}, at: 10, body: zeros(t, kgo.CodecZstd, 2*limits.KafkaBatchBytes)}}}
	_, next, err := p.serve(f, driver.ReadRequest{Partition: 3, Offset: 10, MaxBytes: 1 << 20}, nil)
	var corrupt *driver.CorruptError
	if !errors.As(err, &corrupt) || corrupt.Partition != 3 || corrupt.Offset != 10 || corrupt.Resume != 15 || next != 10 {
		t.Fatalf("%v, next %d; expected damage of partition 3 from offset 10 to 15", err, next)
	}
}

// Records without a byte, and headers without a name, take memory all the same.
func TestRecordsOfNothingAreBounded(t *testing.T) {
	var records []byte
	const n = 3 * limits.KafkaReadRecords
	for i := range int64(n) {
		b := append(binary.AppendVarint([]byte{0, 0}, i), 1, 1, 0) // no key, no value, no headers
		records = append(binary.AppendVarint(records, int64(len(b))), b...)
	}
	f := &feed{spans: []span{{h: header{last: n}, body: records}}, end: n + 1}
	recs, _, err := f.read(0, 1<<20, nil, &arena{}, newInflate())
	if err != nil || len(recs) != limits.KafkaReadRecords {
		t.Fatalf("%d records, %v; expected %d", len(recs), err, limits.KafkaReadRecords)
	}
	r := rawRecord{headers: make([]byte, 1<<20), nHeaders: limits.KafkaHeaders + 1}
	if _, err := r.copyTo(&arena{}, ""); err == nil {
		t.Error("a record with too many headers is read")
	}
}
