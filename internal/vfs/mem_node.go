//go:build linux

package vfs

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// blockSize is the unit that reaches the disk or does not; sectorSize is the unit within which
// a torn block is whole.
const (
	blockSize  = 4096
	sectorSize = 512
)

type block [blockSize]byte

var zeroBlock block

// fileNode is a file: the page cache that all processes share, and what is on the disk.
// Blocks are immutable once stored and nil when all zeros, so that copies of a machine share them.
type fileNode struct {
	perm     fs.FileMode
	modTime  time.Time
	size     int64
	diskSize int64
	cache    map[int64]*block
	disk     map[int64]*block
	dirty    map[int64]struct{} // blocks of the cache that the next sync writes
	past     map[int64][]*block // what else the dirty ones held since the last sync, or the disk before it was written
	locks    map[*memFile]bool  // holder → exclusive
	opens    map[*memFile]struct{}
	// From the first Map on the page cache is a memfd instead, which mappings share with
	// ReadAt and WriteAt exactly as those of a real file do.
	shm      *os.File
	mappings map[*memMapping]int64
	storable int64 // bytes that a writable mapping could have changed unseen
}

func newFileNode(perm fs.FileMode) *fileNode {
	return &fileNode{perm: perm, modTime: now(), cache: map[int64]*block{}, disk: map[int64]*block{}, dirty: map[int64]struct{}{},
		past: map[int64][]*block{}, locks: map[*memFile]bool{}, opens: map[*memFile]struct{}{}, mappings: map[*memMapping]int64{}}
}

func (n *fileNode) info(name string) fs.FileInfo {
	return memInfo{name: name, size: n.size, mode: n.perm.Perm(), modTime: n.modTime, node: n}
}

func (n *fileNode) bytes() int64 { return n.size }

// get reads a block of the page cache; nil is all zeros.
func (n *fileNode) get(i int64) *block {
	if n.shm == nil {
		return n.cache[i]
	}
	var b block
	if got, _ := n.shm.ReadAt(b[:], i*blockSize); got == 0 || b == zeroBlock {
		return nil
	}
	return &b
}

func (n *fileNode) put(i int64, b *block) {
	if n.shm != nil {
		size := min(blockSize, n.size-i*blockSize)
		if _, err := n.shm.WriteAt(b[:size], i*blockSize); err != nil {
			panic("vfs: write to a memfd: " + err.Error())
		}
		return
	}
	store(n.cache, i, b)
}

func store(m map[int64]*block, i int64, b *block) {
	if b == nil || *b == zeroBlock {
		delete(m, i)
		return
	}
	m[i] = b
}

func (n *fileNode) readAt(p []byte, off int64) int {
	end := min(off+int64(len(p)), n.size)
	done := 0
	for at := off; at < end; {
		i, from := at/blockSize, at%blockSize
		size := min(blockSize-from, end-at)
		b := n.get(i)
		if b == nil {
			b = &zeroBlock
		}
		copy(p[done:], b[from:from+size])
		done, at = done+int(size), at+size
	}
	return done
}

func (n *fileNode) writeAt(m *machine, p []byte, off int64) error {
	if len(p) == 0 {
		return nil
	}
	n.modTime = now()
	if end := off + int64(len(p)); end > n.size {
		if err := n.resize(m, end); err != nil {
			return err
		}
	}
	for len(p) > 0 {
		i, from := off/blockSize, off%blockSize
		n.background(m, i)
		b := new(block)
		if old := n.get(i); old != nil {
			*b = *old
		}
		done := copy(b[from:], p)
		n.put(i, b)
		n.dirty[i] = struct{}{}
		p, off = p[done:], off+int64(done)
	}
	return nil
}

// background plays the kernel that may have written a dirty block back just before it changes. A disk
// has a cache of its own: until a sync, each sector may still come back as it ever was since the last one.
func (n *fileNode) background(m *machine, i int64) {
	if _, ok := n.dirty[i]; !ok {
		return
	}
	now := n.get(i)
	n.remember(i, now)
	if m.rng.IntN(2) == 0 {
		n.remember(i, n.disk[i])
		store(n.disk, i, now)
	}
}

// remember adds to what a block may come back as; nil is zeros.
func (n *fileNode) remember(i int64, b *block) {
	if past := n.past[i]; len(past) < maxPast {
		n.past[i] = append(past[:len(past):len(past)], b)
	}
}

// maxPast bounds what is kept of one block: the oldest, which surprise most.
const maxPast = 8

// writeBackMapped plays the kernel that writes pages back that were stored into, whenever it likes, so
// that the disk has them as they were at some time.
func (m *machine) writeBackMapped() {
	for _, n := range m.mapped {
		if m.past.IntN(4) > 0 {
			continue
		}
		n.findStores()
		for _, i := range sortedKeys(n.dirty) {
			if i*blockSize < n.storable && m.past.IntN(2) == 0 {
				store(n.disk, i, n.get(i))
			}
		}
	}
}

// resize changes the size. The size on the disk may follow an older one any time.
func (n *fileNode) resize(m *machine, size int64) error {
	if size > n.size && m.capacity > 0 && m.root.bytes()+size-n.size > m.capacity {
		return syscall.ENOSPC
	}
	for _, mapped := range n.mappings {
		if size < mapped {
			return syscall.EBUSY // a real one would give SIGBUS to a reader of the mapping
		}
	}
	if n.shm != nil {
		if err := n.shm.Truncate(size); err != nil {
			return err
		}
	}
	if n.size != n.diskSize && m.rng.IntN(2) == 0 {
		n.diskSize = n.size
	}
	n.size = size
	return nil
}

func (n *fileNode) truncate(m *machine, size int64) error {
	n.modTime = now()
	old := n.size
	if err := n.resize(m, size); err != nil || size >= old {
		return err
	}
	if from := size % blockSize; from != 0 {
		i := size / blockSize
		if b := n.get(i); b != nil {
			n.background(m, i)
			cut := *b
			clear(cut[from:])
			n.put(i, &cut)
			n.dirty[i] = struct{}{}
		}
	}
	for i := (size + blockSize - 1) / blockSize; i*blockSize < old; i++ {
		if n.shm == nil {
			delete(n.cache, i)
		}
		n.dirty[i] = struct{}{}
	}
	return nil
}

// sync writes everything that is dirty to the disk.
func (n *fileNode) sync() {
	n.findStores()
	for i := range n.dirty {
		store(n.disk, i, n.get(i))
	}
	clear(n.dirty)
	clear(n.past)
	n.diskSize = n.size
}

// loseSync plays a sync that failed: some blocks were written, and the kernel now holds all of
// them for clean, so that no later sync writes the others.
func (n *fileNode) loseSync(m *machine) {
	n.findStores()
	for _, i := range sortedKeys(n.dirty) {
		if m.rng.IntN(2) == 0 {
			store(n.disk, i, n.get(i))
		}
	}
	clear(n.dirty)
	clear(n.past)
}

// findStores marks the blocks that were changed through writable mappings.
func (n *fileNode) findStores() {
	for i := int64(0); i*blockSize < min(n.storable, n.size); i++ {
		live, disk := n.get(i), n.disk[i]
		if (live == nil) != (disk == nil) || live != nil && *live != *disk {
			n.dirty[i] = struct{}{}
		}
	}
}

// share moves the page cache to a memfd.
func (n *fileNode) share() error {
	if n.shm != nil {
		return nil
	}
	fd, err := unix.MemfdCreate("vfs-mem", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	shm := os.NewFile(uintptr(fd), "memfd")
	if err := shm.Truncate(n.size); err != nil {
		shm.Close()
		return err
	}
	cache := n.cache
	n.shm, n.cache = shm, nil
	for i, b := range cache {
		n.put(i, b)
	}
	return nil
}
