package fileregistry

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/ringfence/ringfence/internal/vfs"
)

// The room of the journal. A generation's file is written full of zeros before it is in force, so
// that appending changes no metadata and needs no space. The other file, in which the next
// generation will lie, is kept as large: the next snapshot fits into it as long as the content does
// not grow. So what goes on while a disk is full goes on for as long as the content stays of one
// size, and so does a process that restarts on that disk, whose recovery begins a generation.
const (
	firstSpace = 1 << 20 // room for frames in the first generation
	minSpace   = 8 << 20 // and in later ones
)

// prepare writes the snapshot and room for frames behind it, and syncs them. When the disk is too
// full to grow, a file that has some room is good enough.
func (j *journal) prepare(f vfs.File, hdr *header, snap []byte, need int) (int64, error) {
	size, err := j.sizeOf(f, hdr.gen)
	if err != nil {
		return 0, err
	}
	space := cmp.Or(j.space, minSpace)
	if j.space == 0 && hdr.gen == 1 {
		space = firstSpace
	}
	least := hdr.dataStart() + int64(need)
	want := hdr.dataStart() + max(space, int64(2*need), 4*int64(len(snap)))
	if size < want {
		grown, err := fillZeros(f, size, want)
		if err != nil && max(size, grown) < least {
			return 0, err
		}
		size = max(size, grown)
	}
	if _, err := f.WriteAt(snap, pageSize); err != nil && len(snap) > 0 {
		return 0, err
	}
	return size, f.SyncData()
}

// reserve makes the file in which generation gen will lie at least as large as size. What is in it
// stays: it is of no use any more, but may be being read.
func (j *journal) reserve(gen uint64, size int64) error {
	if err := j.makeFile(gen % 2); err != nil {
		return err
	}
	f := j.file(gen)
	have, err := j.sizeOf(f, gen)
	if err != nil || have >= size {
		return err
	}
	if _, err := fillZeros(f, have, size); err != nil {
		return err
	}
	return f.SyncData()
}

// sizeOf is the size of the file of a generation.
func (j *journal) sizeOf(f vfs.File, gen uint64) (int64, error) {
	size, err := f.Size()
	if err != nil {
		return 0, fmt.Errorf("registry journal %s: %w", j.path(gen, 0), readError(err))
	}
	return size, nil
}

// fillZeros writes zeros into [from, to) and returns how far it got.
func fillZeros(f vfs.File, from, to int64) (int64, error) {
	zeros := make([]byte, min(to-from, 1<<20))
	for from < to {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), to-from)], from)
		from += int64(n)
		if err != nil {
			return from, err
		}
	}
	return from, nil
}

// openFile opens journal file i if it is not open yet.
func (j *journal) openFile(i uint64, flag int) error {
	if j.files[i] != nil {
		return nil
	}
	flag |= os.O_RDWR
	if j.looks {
		flag = os.O_RDONLY
	}
	f, err := j.fs.OpenFile(journalName(i), flag, 0o600)
	if err != nil {
		return err
	}
	j.files[i] = f
	return nil
}

// makeFile opens journal file i, makes it when there is none, and makes its name durable, with the
// directory's: the process that made them may have been killed before it did.
func (j *journal) makeFile(i uint64) error {
	if err := j.openFile(i, os.O_CREATE); err != nil || j.named[i] {
		return err
	}
	err := errors.Join(j.fs.SyncDir("."), j.data.SyncDir("."))
	j.named[i] = err == nil
	return err
}
