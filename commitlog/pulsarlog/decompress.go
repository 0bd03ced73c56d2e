package pulsarlog

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/ringfence/ringfence/internal/limits"
)

// The numbers of Pulsar's compressions.
const (
	byLZ4    = 1
	byZlib   = 2
	byZstd   = 3
	bySnappy = 4
)

// What a byte becomes at most: who declares more has no such bytes.
const (
	lz4Ratio  = 255
	zlibRatio = 1032
	slack     = 1 << 10
)

// decompressor keeps what is costly to make; the zero value is ready.
type decompressor struct {
	once sync.Once
	zstd *zstd.Decoder
	err  error
}

func (d *decompressor) zstdDecoder() (*zstd.Decoder, error) {
	d.once.Do(func() {
		d.zstd, d.err = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(limits.PulsarEntryBytes), zstd.WithDecoderConcurrency(0))
	})
	return d.zstd, d.err
}

// decompress takes what an entry says of its size for a claim, and gives what it really has, within the limit.
func (d *decompressor) decompress(by int32, b []byte, size uint32) ([]byte, error) {
	if size > limits.PulsarEntryBytes {
		return nil, fmt.Errorf("it says that it has %d bytes decompressed; expected %d at most", size, limits.PulsarEntryBytes)
	}
	claim := func(ratio int) error {
		if uint64(size) > uint64(ratio)*uint64(len(b))+slack { //nolint:gosec // a length
			return fmt.Errorf("it says that %d bytes become %d", len(b), size)
		}
		return nil
	}
	bad := func(err error) error { return fmt.Errorf("it can't be decompressed: %w", err) }
	switch by {
	case byLZ4:
		if err := claim(lz4Ratio); err != nil {
			return nil, err
		}
		dst := make([]byte, size)
		n, err := lz4.UncompressBlock(b, dst)
		if err != nil {
			return nil, bad(err)
		}
		return dst[:n], nil
	case byZlib:
		if err := claim(zlibRatio); err != nil {
			return nil, err
		}
		r, err := zlib.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, bad(err)
		}
		dst := make([]byte, size)
		if _, err := io.ReadFull(r, dst); err != nil {
			return nil, bad(err)
		}
		return dst, nil
	case byZstd:
		z, err := d.zstdDecoder()
		if err != nil {
			return nil, bad(err)
		}
		if b, err = z.DecodeAll(b, nil); err != nil {
			return nil, bad(err)
		}
		return b, nil
	case bySnappy:
		n, err := snappy.DecodedLen(b)
		if err == nil && n > limits.PulsarEntryBytes {
			err = fmt.Errorf("it has %d bytes; expected %d at most", n, limits.PulsarEntryBytes)
		}
		if err == nil {
			b, err = snappy.Decode(nil, b)
		}
		if err != nil {
			return nil, bad(err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("it is compressed in a way that is not known (%d)", by)
}
