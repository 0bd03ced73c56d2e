package kafkalog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"

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
}

// reset begins a batch in the memory of buf.
func (b *builder) reset(buf []byte) {
	*b = builder{buf: append(buf[:0], make([]byte, batchHeader)...)}
}

func varintLen(v int64) int {
	u, n := uint64(v<<1)^uint64(v>>63), 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}

func bytesLen(p []byte) int {
	if p == nil {
		return 1
	}
	return varintLen(int64(len(p))) + len(p)
}

func appendBytes(dst, p []byte) []byte {
	if p == nil {
		return append(dst, 1) // -1
	}
	return append(binary.AppendVarint(dst, int64(len(p))), p...)
}

// add appends a record; extra is one more header, if it has a name.
func (b *builder) add(r *driver.Record, timestamp int64, extra driver.Header) {
	if b.records == 0 {
		b.base, b.max = timestamp, timestamp
	}
	b.max = max(b.max, timestamp)
	delta, headers := timestamp-b.base, int64(len(r.Headers))
	n := 1 + varintLen(delta) + varintLen(int64(b.records)) + bytesLen(r.Key) + bytesLen(r.Value)
	for i := range r.Headers {
		h := &r.Headers[i]
		n += varintLen(int64(len(h.Name))) + len(h.Name) + bytesLen(h.Value)
	}
	if extra.Name != "" {
		headers++
		n += varintLen(int64(len(extra.Name))) + len(extra.Name) + bytesLen(extra.Value)
	}
	n += varintLen(headers)
	buf := binary.AppendVarint(b.buf, int64(n))
	buf = append(buf, 0)
	buf = binary.AppendVarint(buf, delta)
	buf = binary.AppendVarint(buf, int64(b.records))
	buf = appendBytes(buf, r.Key)
	buf = appendBytes(buf, r.Value)
	buf = binary.AppendVarint(buf, headers)
	if extra.Name != "" {
		buf = appendHeader(buf, extra)
	}
	for i := range r.Headers {
		buf = appendHeader(buf, r.Headers[i])
	}
	b.buf = buf
	b.records++
}

func appendHeader(buf []byte, h driver.Header) []byte {
	buf = binary.AppendVarint(buf, int64(len(h.Name)))
	buf = append(buf, h.Name...)
	return appendBytes(buf, h.Value)
}

// finish writes the header under an identity and returns the batch.
func (b *builder) finish(compress kgo.Compressor, id int64, epoch int16, sequence int32) []byte {
	attributes := int16(0)
	if compress != nil {
		b.buf, attributes = compressed(b.buf, compress)
	}
	h := b.buf[:batchHeader]
	binary.BigEndian.PutUint64(h[0:], 0)
	binary.BigEndian.PutUint32(h[8:], uint32(len(b.buf)-12))
	binary.BigEndian.PutUint32(h[12:], ^uint32(0))
	h[16] = 2
	binary.BigEndian.PutUint16(h[21:], uint16(attributes))
	binary.BigEndian.PutUint32(h[23:], uint32(b.records-1))
	binary.BigEndian.PutUint64(h[27:], uint64(b.base))
	binary.BigEndian.PutUint64(h[35:], uint64(b.max))
	binary.BigEndian.PutUint32(h[57:], uint32(b.records))
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
	base, last    int64 // offsets
	attributes    int16
	baseTimestamp int64
	maxTimestamp  int64
	producer      int64
	epoch         int16
	sequence      int32
	records       int32
}

// nextBatch splits the first batch off a response. A batch that the response cuts off gives none.
func nextBatch(src []byte) (h header, batch, rest []byte, err error) {
	if len(src) < 17 {
		return header{}, nil, nil, nil
	}
	size := int64(int32(binary.BigEndian.Uint32(src[8:]))) + 12
	h.base = int64(binary.BigEndian.Uint64(src))
	if magic := src[16]; magic != 2 {
		return h, nil, nil, fmt.Errorf("a batch of format %d; expected 2, which Kafka writes since 0.11", magic)
	}
	if size < batchHeader {
		return h, nil, nil, fmt.Errorf("a batch of %d bytes; expected at least %d", size, batchHeader)
	}
	if int64(len(src)) < size {
		return header{}, nil, nil, nil
	}
	batch, rest = src[:size], src[size:]
	if want, got := binary.BigEndian.Uint32(batch[17:]), crc32.Checksum(batch[21:], castagnoli); want != got {
		return h, nil, nil, fmt.Errorf("a batch with checksum %08x; expected %08x", got, want)
	}
	h.attributes = int16(binary.BigEndian.Uint16(batch[21:]))
	h.last = h.base + int64(int32(binary.BigEndian.Uint32(batch[23:])))
	h.baseTimestamp = int64(binary.BigEndian.Uint64(batch[27:]))
	h.maxTimestamp = int64(binary.BigEndian.Uint64(batch[35:]))
	h.producer = int64(binary.BigEndian.Uint64(batch[43:]))
	h.epoch = int16(binary.BigEndian.Uint16(batch[51:]))
	h.sequence = int32(binary.BigEndian.Uint32(batch[53:]))
	h.records = int32(binary.BigEndian.Uint32(batch[57:]))
	if h.last < h.base || h.records < 0 {
		return h, nil, nil, fmt.Errorf("a batch of %d records from offset %d to %d", h.records, h.base, h.last)
	}
	return h, batch, rest, nil
}
