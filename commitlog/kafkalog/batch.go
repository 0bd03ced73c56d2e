package kafkalog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// The layout of a record batch, as Kafka has it since 0.11 ("magic 2"):
//
//	 0 base offset      8
//	 8 length           4  of what follows
//	12 leader epoch     4
//	16 magic            1  2
//	17 CRC-32C          4  of what follows
//	21 attributes       2  bits 0–2 compression, 3 log append time, 4 transactional, 5 control
//	23 last offset      4  relative to the base
//	27 base timestamp   8
//	35 max timestamp    8
//	43 producer id      8
//	51 producer epoch   2
//	53 base sequence    4
//	57 records          4  their number; behind it the records, compressed as a whole
const (
	batchHeader     = 61
	attrCompression = 0x07
	attrAppendTime  = 0x08
	attrTransaction = 0x10
	attrControl     = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recordSpace is an upper bound of what a record takes in a batch beyond its bytes.
func recordSpace(r *driver.Record) int { return 40 + 10*len(r.Headers) }

// builder encodes one batch.
type builder struct {
	buf     []byte
	records int32
	base    int64 // timestamp
	max     int64
	headers []kmsg.Header // of the record that is added
}

// reset begins a batch in the memory of buf.
func (b *builder) reset(buf []byte) {
	*b = builder{buf: append(buf[:0], make([]byte, batchHeader)...)}
}

// add appends a record; extra is one more header, if it has a name.
func (b *builder) add(r *driver.Record, timestamp int64, extra driver.Header) {
	if b.records == 0 {
		b.base, b.max = timestamp, timestamp
	}
	b.max = max(b.max, timestamp)
	b.headers = b.headers[:0]
	if extra.Name != "" {
		b.headers = append(b.headers, kmsg.Header{Key: extra.Name, Value: extra.Value})
	}
	for _, h := range r.Headers {
		b.headers = append(b.headers, kmsg.Header{Key: h.Name, Value: h.Value})
	}
	rec := kmsg.Record{TimestampDelta64: timestamp - b.base, OffsetDelta: b.records, Key: r.Key, Value: r.Value, Headers: b.headers}
	at := len(b.buf)
	b.buf = rec.AppendTo(b.buf)
	length := binary.AppendVarint(make([]byte, 0, binary.MaxVarintLen64), int64(len(b.buf)-at-1))
	b.buf = slices.Replace(b.buf, at, at+1, length...) // of the one byte that AppendTo wrote
	b.records++
}

// finish writes the header under an identity and returns the batch.
func (b *builder) finish(compress kgo.Compressor, id int64, epoch int16, sequence int32) []byte {
	attributes := int16(0)
	if compress != nil {
		b.buf, attributes = compressed(b.buf, compress)
	}
	h := kmsg.RecordBatch{
		Length: int32(len(b.buf) - 12), PartitionLeaderEpoch: -1, Magic: 2, Attributes: attributes, LastOffsetDelta: b.records - 1,
		FirstTimestamp: b.base, MaxTimestamp: b.max, NumRecords: b.records,
	}
	h.AppendTo(b.buf[:0])
	sign(b.buf, id, epoch, sequence)
	return b.buf
}

// sign puts an identity into a finished batch; a batch that surely was not stored may get another.
func sign(batch []byte, id int64, epoch int16, sequence int32) {
	binary.BigEndian.PutUint64(batch[43:], uint64(id))
	binary.BigEndian.PutUint16(batch[51:], uint16(epoch))
	binary.BigEndian.PutUint32(batch[53:], uint32(sequence))
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], castagnoli))
}

// compressed replaces the records behind a header by their compressed form, if that is shorter.
func compressed(buf []byte, c kgo.Compressor) ([]byte, int16) {
	short, codec := c.Compress(new(bytes.Buffer), buf[batchHeader:])
	if short == nil || len(short) >= len(buf)-batchHeader {
		return buf, 0
	}
	return append(buf[:batchHeader], short...), int16(codec)
}

// header is what a reader needs of a batch.
type header struct {
	kmsg.RecordBatch
	last int64 // offset
}

// nextBatch reads the first batch of a response; size 0: the response cuts it off.
func nextBatch(src []byte) (h header, size int, err error) {
	if len(src) < 17 {
		return h, 0, nil
	}
	size = int(int32(binary.BigEndian.Uint32(src[8:]))) + 12
	switch magic := src[16]; {
	case magic != 2:
		return h, 0, fmt.Errorf("a batch of format %d; expected 2, which Kafka writes since 0.11", magic)
	case size < batchHeader:
		return h, 0, fmt.Errorf("a batch of %d bytes; expected at least %d", size, batchHeader)
	case len(src) < size:
		return h, 0, nil
	}
	if err := h.ReadFrom(src[:size]); err != nil {
		return h, 0, fmt.Errorf("a batch of %d bytes: %w", size, err)
	}
	if got := int32(crc32.Checksum(src[21:size], castagnoli)); got != h.CRC {
		return h, 0, fmt.Errorf("a batch with checksum %08x; expected %08x", uint32(got), uint32(h.CRC))
	}
	h.last = h.FirstOffset + int64(h.LastOffsetDelta)
	if h.last < h.FirstOffset || h.NumRecords < 0 {
		return h, 0, fmt.Errorf("a batch of %d records from offset %d to %d", h.NumRecords, h.FirstOffset, h.last)
	}
	return h, size, nil
}
