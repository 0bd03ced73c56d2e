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

// decompress returns the payload of an entry whose metadata says that it has size bytes.
func (d *decompressor) decompress(by int32, b []byte, size uint32) ([]byte, error) {
	if size > limits.PulsarEntryBytes {
		return nil, fmt.Errorf("it says that it has %d bytes decompressed; expected %d at most", size, limits.PulsarEntryBytes)
	}
	plain, err := d.plain(by, b, size)
	if err != nil {
		return nil, fmt.Errorf("it can't be decompressed: %w", err)
	}
	return plain, nil
}

func (d *decompressor) plain(by int32, b []byte, size uint32) ([]byte, error) {
	switch by {
	case byLZ4:
		dst := make([]byte, size)
		n, err := lz4.UncompressBlock(b, dst)
		return dst[:max(n, 0)], err
	case byZlib:
		r, err := zlib.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		dst := make([]byte, size)
		_, err = io.ReadFull(r, dst)
		return dst, err
	case byZstd:
		z, err := d.zstdDecoder()
		if err != nil {
			return nil, err
		}
		return z.DecodeAll(b, nil)
	case bySnappy:
		return snappy.Decode(nil, b)
	}
	return nil, fmt.Errorf("compression %d is not known", by)
}
