package measure

import (
	"errors"
	"hash/crc32"
	"os"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/vfs"
)

// Raw writes a block and syncs it, over and over, into a file that was written full of zeros before:
// the least that a durable append can cost on this disk.
type Raw struct {
	mu   sync.Mutex
	fs   *vfs.OS
	file vfs.File
	at   int64
	buf  []byte
}

// The blocks of raw writes.
const (
	RawBlock = 4 << 10
	RawLarge = 1 << 20 // when the bandwidth is measured

	rawBytes = 64 << 20
)

// NewRaw makes the file in dir.
func NewRaw(dir string) (*Raw, error) {
	fs, err := vfs.CreateOS(dir, 0o755)
	if err != nil {
		return nil, err
	}
	f, err := fs.OpenFile("raw", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, errors.Join(err, fs.Close())
	}
	r := &Raw{fs: fs, file: f, buf: make([]byte, RawLarge)}
	for at := int64(0); at < rawBytes && err == nil; at += RawLarge {
		_, err = f.WriteAt(r.buf, at)
	}
	if err = errors.Join(err, f.SyncData()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Write writes one block and, with sync, syncs it.
func (r *Raw) Write(block int, sync bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at+int64(block) > rawBytes {
		r.at = 0
	}
	r.buf[0]++
	if _, err := r.file.WriteAt(r.buf[:block], r.at); err != nil {
		return err
	}
	r.at += int64(block)
	if !sync {
		return nil
	}
	return r.file.SyncData()
}

// Measure writes and syncs for a while and gives the writes a second.
func (r *Raw) Measure(d time.Duration, block int, h *Histogram) (float64, error) {
	return Callers(1, d, h, func(int) error { return r.Write(block, true) })
}

// Close closes its file.
func (r *Raw) Close() error { return errors.Join(r.file.Close(), r.fs.Close()) }

// RawRead reads a file in dir in 256 KiB pieces and checksums it: the least that a verified read of so
// many bytes costs.
func RawRead(dir string, bytes int64) (took time.Duration, err error) {
	fs, err := vfs.CreateOS(dir, 0o755)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, fs.Close()) }()
	f, err := fs.OpenFile("raw-read", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, 256<<10)
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	for at := size; at < bytes; at += int64(len(buf)) {
		if _, err := f.WriteAt(buf, at); err != nil {
			return 0, err
		}
	}
	table, sum, began := crc32.MakeTable(crc32.Castagnoli), uint32(0), time.Now()
	for at := int64(0); at < bytes; at += int64(len(buf)) {
		if _, err := f.ReadAt(buf, at); err != nil {
			return 0, err
		}
		sum ^= crc32.Checksum(buf, table)
	}
	took = time.Since(began)
	buf[0] = byte(sum) // the sum is needed
	return took, nil
}
