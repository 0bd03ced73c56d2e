package benchkit

import (
	"errors"
	"hash/crc32"
	"os"
	"time"

	"github.com/ringfence/ringfence/internal/vfs"
)

// rawSync writes a block and syncs it, over and over, into a file that was written full of zeros:
// the least that a durable append can cost on this disk.
type rawSync struct {
	fs   *vfs.OS
	file vfs.File
	at   int64
	buf  []byte
}

const (
	rawBlock = 4 << 10
	rawLarge = 1 << 20 // when the bandwidth is measured
	rawBytes = 64 << 20
)

func newRawSync(dir string) (*rawSync, error) {
	fs, err := vfs.CreateOS(dir, 0o755)
	if err != nil {
		return nil, err
	}
	f, err := fs.OpenFile("raw", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, errors.Join(err, fs.Close())
	}
	r := &rawSync{fs: fs, file: f, buf: make([]byte, rawLarge)}
	for at := int64(0); at < rawBytes; at += rawLarge {
		if _, err := f.WriteAt(r.buf, at); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, f.SyncData()
}

// measure writes blocks of so many bytes for d and returns the writes a second.
func (r *rawSync) measure(d time.Duration, block int, h *histogram) (float64, error) {
	n, began := 0, time.Now()
	for time.Since(began) < d {
		if err := r.write(block, h); err != nil {
			return 0, err
		}
		n++
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// paced is measure with a pause between writes: a disk that had time to fall asleep is slower.
func (r *rawSync) paced(d, every time.Duration, h *histogram) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < d; {
		<-tick.C
		if err := r.write(rawBlock, h); err != nil {
			return err
		}
	}
	return nil
}

func (r *rawSync) write(block int, h *histogram) error {
	if r.at+int64(block) > rawBytes {
		r.at = 0
	}
	began := time.Now()
	if _, err := r.file.WriteAt(r.buf[:block], r.at); err != nil {
		return err
	}
	if err := r.file.SyncData(); err != nil {
		return err
	}
	h.add(time.Since(began))
	r.at += int64(block)
	r.buf[0]++
	return nil
}

// Close closes its file.
func (r *rawSync) Close() error { return errors.Join(r.file.Close(), r.fs.Close()) }

// rawRead reads a file in 256 KiB pieces and checksums it: the least that a verified read costs.
func rawRead(dir string, bytes int64, record int) (perSecond float64, err error) {
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
	if size, err := f.Size(); err != nil || size < bytes {
		for at := size; at < bytes; at += int64(len(buf)) {
			if _, err := f.WriteAt(buf, at); err != nil {
				return 0, err
			}
		}
	}
	table, sum, began := crc32.MakeTable(crc32.Castagnoli), uint32(0), time.Now()
	for at := int64(0); at < bytes; at += int64(len(buf)) {
		if _, err := f.ReadAt(buf, at); err != nil {
			return 0, err
		}
		sum ^= crc32.Checksum(buf, table)
	}
	took := time.Since(began)
	buf[0] = byte(sum) // the sum is needed
	return float64(bytes) / float64(record) / took.Seconds(), nil
}
