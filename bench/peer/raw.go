package peer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	rawFileBytes = 64 << 20
	rawBlock     = 4 << 10
)

// raw is the floor that nothing which syncs each append can go below: one block at a time into a
// file that was written before, so that the file system has nothing to allocate or to journal.
type raw struct {
	mu   sync.Mutex
	file *os.File
	buf  []byte
	off  int64
	sync bool
}

func openRaw(_ context.Context, o Options) (Store, error) { return newRaw(o, rawBlock) }

// NewRawBandwidth is raw with writes of block bytes: the bandwidth of synced writes.
func NewRawBandwidth(dir string, block int) (Store, error) {
	return newRaw(Options{Dir: dir, Durability: Sync}, block)
}

func newRaw(o Options, block int) (*raw, error) {
	f, err := os.Create(filepath.Join(o.Dir, "raw"))
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, 1<<20)
	for off := int64(0); off < rawFileBytes; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, off); err != nil {
			f.Close()
			return nil, err
		}
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return nil, err
	}
	return &raw{file: f, buf: make([]byte, block), sync: o.Durability == Sync}, nil
}

func (r *raw) Appender() (Append, error) {
	return func(_ context.Context, values [][]byte) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		n := 0
		for _, v := range values {
			n += copy(r.buf[n:], v)
		}
		if r.off+int64(len(r.buf)) > rawFileBytes {
			r.off = 0
		}
		if _, err := r.file.WriteAt(r.buf, r.off); err != nil {
			return err
		}
		r.off += int64(len(r.buf))
		if !r.sync {
			return nil
		}
		if err := unix.Fdatasync(int(r.file.Fd())); err != nil {
			return fmt.Errorf("fdatasync: %w", err)
		}
		return nil
	}, nil
}

func (r *raw) Close() error { return r.file.Close() }
