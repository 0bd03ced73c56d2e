package fileregistry

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/vfs"
)

// The content of the registry is a snapshot and the frames of transactions behind it. Both lie in one file, a
// generation; when that is full, a new one begins in the other of two files, with a new snapshot (rotate).
// Each process holds the content in memory and follows: as far as ctl.written says the frames are there, so
// it reads those it does not know yet, and when ctl.gen is another it goes over to that file. A file that was
// used again meanwhile does not read as what was looked for, since each generation has a nonce of its own;
// then the reading begins anew.
//
// Two orders make it safe. A frame is in the file before written names it, under the kernel lock. And a new
// generation is durable before gen names it, while rotating tells that a header may be there that is not in
// force (agreeHeaders).

const entryBytes = 100 // a guess at what one entry takes

// journal is one process's view of the shared journal. It is used by one goroutine at a time;
// what changes the files needs the kernel lock as well.
type journal struct {
	fs    vfs.FS // the directory
	data  vfs.FS // in which it lies
	files [2]vfs.File
	looks bool // the files are opened for reading only
	// named: this process knows that the file's name is durable. The file's maker may have been killed before
	// it was, so the first in each process that relies on a name syncs the directory.
	named [2]bool
	ctl   *control

	hdr      header // of the generation that the view follows
	st       *state // nil: to be loaded
	applied  uint64 // LSN up to which st is
	rev      uint64
	capacity int64 // size of the generation's file
	space    int64 // room for frames; 0: the usual
	buf      []byte
}

func journalName(i uint64) string { return fmt.Sprintf("journal-%d", i) }

func (j *journal) file(gen uint64) vfs.File { return j.files[gen%2] }

// path names a position for messages.
func (j *journal) path(gen uint64, off int64) string {
	return fmt.Sprintf("%s at byte %d", j.fs.Path(journalName(gen%2)), off)
}

// refresh brings the view up to what was written.
func (j *journal) refresh(ch *change) error {
	for {
		gen := j.ctl.gen.Load()
		if j.st == nil || gen != j.hdr.gen {
			if err := j.follow(gen, ch); err != nil {
				if j.ctl.gen.Load() != gen {
					continue // it was reused while it was read
				}
				return err
			}
		}
		end := j.ctl.written.Load()
		if j.applied >= end {
			return nil
		}
		err := j.readFrames(end, ch)
		if err == nil {
			return nil
		}
		if j.ctl.gen.Load() == gen {
			return err
		}
	}
}

// follow switches the view to a generation.
func (j *journal) follow(gen uint64, ch *change) error {
	if err := j.openFile(gen%2, 0); err != nil {
		return fmt.Errorf("registry journal %s: %w: %w", j.path(gen, 0), err, fault.Unavailable)
	}
	f := j.file(gen)
	hdr, err := readHeader(f)
	if err == nil && hdr.gen != gen {
		err = fmt.Errorf("it is of generation %d, expected %d: %w", hdr.gen, gen, fault.Corrupt)
	}
	if err != nil {
		return fmt.Errorf("registry journal %s: %w", j.path(gen, 0), err)
	}
	size, err := j.sizeOf(f, gen)
	if err != nil {
		return err
	}
	if j.st == nil || j.applied != hdr.base {
		st, err := j.loadSnapshot(&hdr)
		if err != nil {
			return err
		}
		j.st, j.applied, j.rev = st, hdr.base, hdr.rev
		ch.all, ch.sessions = true, true
	}
	j.hdr, j.capacity = hdr, size
	return nil
}

// readError tells a file that is too short from one that can't be read now.
func readError(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("it is too short: %w", fault.Corrupt)
	}
	return fmt.Errorf("%w: %w", err, fault.Unavailable)
}

func (j *journal) loadSnapshot(hdr *header) (*state, error) {
	size, err := j.sizeOf(j.file(hdr.gen), hdr.gen)
	if err != nil {
		return nil, err
	}
	if hdr.snapLen > uint64(max(size-pageSize, 0)) {
		return nil, fmt.Errorf("registry snapshot %s: it claims %d bytes, and the file has %d; restore the directory from a backup: %w", j.path(hdr.gen, pageSize), hdr.snapLen, size, fault.Corrupt)
	}
	b := make([]byte, hdr.snapLen)
	if _, err := j.file(hdr.gen).ReadAt(b, pageSize); err != nil && len(b) > 0 {
		return nil, fmt.Errorf("registry snapshot %s: %w", j.path(hdr.gen, pageSize), readError(err))
	}
	if crc32.Checksum(b, castagnoli) != hdr.snapCRC {
		return nil, fmt.Errorf("registry snapshot %s: the checksum of its %d bytes is wrong; restore the directory from a backup: %w", j.path(hdr.gen, pageSize), len(b), fault.Corrupt)
	}
	st, err := decodeState(b, int(min((hdr.snapLen+j.ctl.written.Load()-min(hdr.base, j.ctl.written.Load()))/entryBytes, 1<<16)))
	if err != nil {
		return nil, fmt.Errorf("registry snapshot %s: %w: %w", j.path(hdr.gen, pageSize), err, fault.Corrupt)
	}
	return st, nil
}

// readFrames applies the frames in [applied, end).
func (j *journal) readFrames(end uint64, ch *change) error {
	off := j.hdr.offset(j.applied)
	if end-j.applied > uint64(max(j.capacity-off, 0)) {
		return fmt.Errorf("registry journal %s: it ends before what was written: %w", j.path(j.hdr.gen, off), fault.Corrupt)
	}
	b := j.scratch(int(end - j.applied))
	if _, err := j.file(j.hdr.gen).ReadAt(b, off); err != nil {
		return fmt.Errorf("registry journal %s: %w", j.path(j.hdr.gen, off), readError(err))
	}
	for len(b) > 0 {
		fr, err := parseFrame(b, j.hdr.nonce, j.applied)
		if err == nil {
			err = j.applyFrame(&fr, ch)
		}
		if err != nil {
			return fmt.Errorf("registry journal %s: %w; restore the directory from a backup: %w", j.path(j.hdr.gen, j.hdr.offset(j.applied)), err, fault.Corrupt)
		}
		b = b[fr.size:]
	}
	return nil
}

func (j *journal) applyFrame(fr *frame, ch *change) error {
	if fr.rev != j.rev {
		return fmt.Errorf("a frame that follows revision %d, expected %d", fr.rev, j.rev)
	}
	for ops := fr.ops; len(ops) > 0; {
		o, rest, err := nextOp(ops)
		if err != nil {
			j.st = nil // half of the frame is applied
			return err
		}
		j.rev++
		j.st.apply(&o, j.hdr.version(j.rev), ch)
		ops = rest
	}
	j.applied += uint64(fr.size)
	return nil
}

func (j *journal) scratch(n int) []byte {
	if cap(j.buf) < n {
		j.buf = make([]byte, n)
	}
	return j.buf[:n]
}

// append writes a frame of ops that are applied to the view already, starting after revision
// rev, and publishes it. Under the lock; room was made before.
func (j *journal) append(b []byte, rev uint64) error {
	lsn := j.applied
	b = sealFrame(b, j.hdr.nonce, lsn, j.ctl.synced.Load(), rev)
	if _, err := j.file(j.hdr.gen).WriteAt(b, j.hdr.offset(lsn)); err != nil {
		j.st = nil // the view has what the journal has not
		return err
	}
	j.applied += uint64(len(b))
	j.ctl.written.Store(j.applied)
	return nil
}

// rotate writes the view as the snapshot of a new generation into the other file, durably, and
// makes it the current one. Under the lock, with a fresh view. All that was written before is
// durable afterwards.
func (j *journal) rotate(need int) error {
	snap := j.st.encode()
	if len(snap) > limits.RegistryBytes {
		return fmt.Errorf("registry: it holds %d bytes; at most %d fit: %w", len(snap), limits.RegistryBytes, fault.Unavailable)
	}
	hdr := header{
		gen: j.hdr.gen + 1, base: j.applied, rev: j.rev, nonce: newNonce(j.hdr.nonce),
		snapLen: uint64(len(snap)), snapCRC: crc32.Checksum(snap, castagnoli),
	}
	if err := j.makeFile(hdr.gen % 2); err != nil {
		return err
	}
	f := j.file(hdr.gen)
	capacity, err := j.prepare(f, &hdr, snap, need)
	if err == nil && hdr.gen == 1 {
		err = j.reserve(hdr.gen+1, capacity)
	}
	if err != nil {
		return fmt.Errorf("registry: start journal generation %d: %w", hdr.gen, err)
	}
	j.ctl.rotating.Store(hdr.gen)
	if err := writeSynced(f, hdr.page()); err != nil {
		return fmt.Errorf("registry: start journal generation %d: %w", hdr.gen, err)
	}
	j.hdr, j.capacity = hdr, capacity
	j.ctl.written.Store(hdr.base)
	j.ctl.gen.Store(hdr.gen)
	j.ctl.raiseSynced(hdr.base)
	j.ctl.rotating.Store(0)
	_ = j.reserve(hdr.gen+1, capacity) // what can't be had now is tried for at the next rotation
	return nil
}

// agreeHeaders makes certain what headers the disk has, when it is not known of the generation that
// `rotating` names. What a file shows proves nothing: its header may be in the page cache only, and an
// error of the disk may have left there what the page cache has no more. Under the lock.
//
// The one in force is not known to be durable after a recovery: it is written again. The next
// one will lie in the file of the one before, so that this comes first. Of the next one, whose writer
// failed or died before it was in force: it is taken back, since the one in force goes on, and after a
// power loss a stale header must not win.
func (j *journal) agreeHeaders() error {
	gen := j.ctl.rotating.Load()
	if gen == 0 {
		return nil
	}
	if gen == j.hdr.gen {
		if err := writeSynced(j.file(gen), j.hdr.page()); err != nil {
			return fmt.Errorf("registry journal %s: %w", j.path(gen, 0), err)
		}
		gen++
		ok, err := j.nothingNext()
		if err != nil {
			return err
		}
		if ok {
			j.ctl.rotating.Store(0)
			return nil
		}
	}
	if err := j.openFile(gen%2, os.O_CREATE); err != nil {
		return err
	}
	if err := writeSynced(j.file(gen), make([]byte, pageSize)); err != nil {
		return fmt.Errorf("registry: take back journal generation %d: %w", gen, err)
	}
	j.ctl.rotating.Store(0)
	return nil
}

// nothingNext says whether the disk certainly has no header of the next generation: the other file
// still has that of the one before, so that nothing was written over it.
func (j *journal) nothingNext() (bool, error) {
	f := j.file(j.hdr.gen + 1)
	if f == nil {
		return true, nil
	}
	b := make([]byte, pageSize)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, readError(err)
	}
	first, bad := decodeHeader(b)
	second, badToo := decodeHeader(b[secondHeader:])
	return bad == nil && badToo == nil && first == second && first.gen+1 == j.hdr.gen, nil
}

// newNonce is random and another than the last one; never 0, which is that of zeros.
func newNonce(last uint32) uint32 { return drawNonce(last, randomWord) }

func drawNonce(last uint32, draw func() uint32) uint32 {
	for {
		if n := draw(); n != last && n != 0 {
			return n
		}
	}
}

func randomWord() uint32 {
	var b [4]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint32(b[:])
}
