package kafkalog

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ringfence/ringfence/internal/limits"
)

// inflate decompresses what whoever may write to a topic has compressed: some kB may declare, or grow
// to, more than there is memory.
type inflate struct {
	snappy kgo.Decompressor // what it needs is known beforehand
	zstd   *zstd.Decoder    // bounded by itself; it has no goroutines
	gzips  sync.Pool
}

var _ kgo.Decompressor = (*inflate)(nil)

func newInflate() *inflate {
	d, err := zstd.NewReader(nil, zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(limits.KafkaBatchBytes))
	if err != nil {
		panic("kafkalog: options of zstd: " + err.Error()) // they are constants
	}
	return &inflate{snappy: kgo.DefaultDecompressor(), zstd: d, gzips: sync.Pool{New: func() any { return new(gzip.Reader) }}}
}

var errBomb = fmt.Errorf("it decompresses to more than %d bytes", limits.KafkaBatchBytes)

// Decompress implements kgo.Decompressor.
func (d *inflate) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	switch codec {
	case kgo.CodecNone:
		return src, nil
	case kgo.CodecGzip:
		r := d.gzips.Get().(*gzip.Reader)
		defer d.gzips.Put(r)
		if err := r.Reset(bytes.NewReader(src)); err != nil {
			return nil, err
		}
		return readMost(r, len(src))
	case kgo.CodecLz4:
		return readMost(lz4.NewReader(bytes.NewReader(src)), len(src))
	case kgo.CodecZstd:
		plain, err := d.zstd.DecodeAll(src, nil)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
			return nil, errBomb
		}
		return plain, err
	case kgo.CodecSnappy:
		if n, err := snappyBytes(src); err != nil {
			return nil, err
		} else if n > limits.KafkaBatchBytes {
			return nil, errBomb
		}
		return d.snappy.Decompress(src, codec)
	}
	return nil, fmt.Errorf("compression of the kind %d", codec)
}

// readMost reads all that comes; it makes room as it comes.
func readMost(r io.Reader, size int) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(2 * size)
	n, err := out.ReadFrom(io.LimitReader(r, limits.KafkaBatchBytes+1))
	if err == nil && n > limits.KafkaBatchBytes {
		err = errBomb
	}
	return out.Bytes(), err
}

var xerial = []byte("\x82SNAPPY\x00")

// snappyBytes is what a batch declares to become: of one block, or of many behind a header as Java
// writes them.
func snappyBytes(src []byte) (uint64, error) {
	block := func(b []byte) (uint64, error) {
		n, w := binary.Uvarint(b)
		if w <= 0 {
			return 0, errors.New("a block of snappy without a length")
		}
		return min(n, 1<<40), nil
	}
	if len(src) <= 16 || !bytes.HasPrefix(src, xerial) {
		return block(src)
	}
	sum := uint64(0)
	for rest := src[16:]; len(rest) > 0 && sum <= limits.KafkaBatchBytes; {
		if len(rest) < 4 || uint64(binary.BigEndian.Uint32(rest)) > uint64(len(rest)-4) {
			return 0, errors.New("a block of snappy that is cut off")
		}
		size := binary.BigEndian.Uint32(rest)
		n, err := block(rest[4 : 4+size])
		if err != nil {
			return 0, err
		}
		sum, rest = sum+n, rest[4+size:]
	}
	return sum, nil
}
