package measure

import (
	"hash/crc32"
	"os"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/script"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Raw writes a block and syncs it, over and over, into a file of zeros: the least that a durable append can cost.
type Raw struct {
	mu   sync.Mutex
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

// NewRaw makes the file in dir, and closes it with the script.
func NewRaw(s *script.Script, dir string) *Raw {
	r := &Raw{file: openRaw(s, dir, "raw"), buf: make([]byte, RawLarge)}
	for at := int64(0); at < rawBytes; at += RawLarge {
		script.Must(r.file.WriteAt(r.buf, at))
	}
	script.Check(r.file.SyncData())
	return r
}

func openRaw(s *script.Script, dir, name string) vfs.File {
	fs := script.Must(vfs.CreateOS(dir, 0o755))
	s.Later(fs.Close)
	f := script.Must(fs.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644))
	s.Later(f.Close)
	return f
}

// Write writes one block and syncs it.
func (r *Raw) Write(block int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at+int64(block) > rawBytes {
		r.at = 0
	}
	r.buf[0]++
	script.Must(r.file.WriteAt(r.buf[:block], r.at))
	r.at += int64(block)
	script.Check(r.file.SyncData())
}

// Measure writes and syncs for a while and gives the writes a second.
func (r *Raw) Measure(d time.Duration, block int, h *Samples) float64 {
	return Callers(1, d, h, func(int) { r.Write(block) })
}

// RawRead reads a file in dir in 256 KiB pieces and checksums it: the least that a verified read costs.
func RawRead(s *script.Script, dir string, bytes int64) (took time.Duration) {
	f := openRaw(s, dir, "raw-read")
	buf := make([]byte, 256<<10)
	for at := script.Must(f.Size()); at < bytes; at += int64(len(buf)) {
		script.Must(f.WriteAt(buf, at))
	}
	table, sum, began := crc32.MakeTable(crc32.Castagnoli), uint32(0), time.Now()
	for at := int64(0); at < bytes; at += int64(len(buf)) {
		script.Must(f.ReadAt(buf, at))
		sum ^= crc32.Checksum(buf, table)
	}
	took = time.Since(began)
	buf[0] = byte(sum) // the sum is needed
	return took
}
