package filelog

import (
	"fmt"
	"hash/fnv"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// The control page: words that all processes of one topic share. Positions only grow.
//
// It is a cache of what the segments say. Only two words hold what is nowhere else, and only as
// long as the host runs: written, and first (which the trim file repeats durably). After a
// reboot, told by boot, all is rebuilt by recovery.
const (
	pageMagic    = 0
	pageBoot     = 8   // of whom the words below are; 0: of nobody
	pageWritten  = 64  // Pos: every frame below it is part of the log
	pageHolder   = 72  // the process that took the write lock last, for messages
	pageSynced   = 128 // Pos: every byte below it is on stable storage
	pageCheck    = 136 // a function of synced; a hint for recovery, see hintOf
	pageAcked    = 192 // Pos: acknowledged at level OS
	pagePoison   = 200 // the newest segment that had a write or sync error; 0: none
	pagePrepared = 208 // the segment whose file has a durable name and is full of zeros
	pageLow      = 216 // the oldest segment that is kept
	pageDeleted  = 224

	pageZeroed  = 240 // Pos: the newest segment's file is allocated and full of zeros up to here
	pageBell    = 256 // u32 futex: changes when there is news
	pageWaiters = 260 // u32: processes that sleep on bell; the dead may stay counted
	pageFirst   = 4096

	magicWord = 0x3165_6761_5066_5231
)

func pageSize(partitions int) int64 {
	return (pageFirst + 8*int64(partitions) + 4095) &^ 4095
}

type page struct {
	m vfs.Mapping
	b []byte
	f vfs.File
}

// openPage maps a control page. partitions may be 0 when first is not needed.
func openPage(fsys vfs.FS, name string, partitions int) (*page, error) {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if want := pageSize(partitions); err == nil && size < want {
		// It was lost or cut short by a crash or by hand. Nothing in it is needed.
		size, err = want, f.Truncate(want)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	m, err := f.Map(size, true)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("map %s: %w", fsys.Path(name), err)
	}
	return &page{m: m, b: m.Bytes(), f: f}, nil
}

func (p *page) close() error {
	err := p.m.Close()
	if e := p.f.Close(); err == nil {
		err = e
	}
	return err
}

func (p *page) word(off int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&p.b[off])) }
func (p *page) half(off int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&p.b[off])) }

func (p *page) pos(off int) segment.Pos { return segment.Pos(p.word(off).Load()) }
func (p *page) written() segment.Pos    { return p.pos(pageWritten) }
func (p *page) synced() segment.Pos     { return p.pos(pageSynced) &^ frozen }
func (p *page) deleted() bool           { return p.word(pageDeleted).Load() != 0 }
func (p *page) poison() uint64          { return p.word(pagePoison).Load() }
func (p *page) low() uint64             { return p.word(pageLow).Load() }

func (p *page) first(partition int) int64 {
	return int64(p.word(pageFirst + 8*partition).Load())
}

// raise moves a word forward to at least v.
func (p *page) raise(off int, v uint64) {
	w := p.word(off)
	for {
		old := w.Load()
		if old >= v || w.CompareAndSwap(old, v) {
			return
		}
	}
}

// frozen marks a synced word that can't move on in its segment, because the segment was
// poisoned: whoever cuts the segment there can rely on it. Positions are multiples of 8.
const frozen = 1

// setSynced publishes that all below pos is on stable storage; false when pos lies in a segment
// that was poisoned meanwhile.
func (p *page) setSynced(pos segment.Pos) bool {
	w := p.word(pageSynced)
	for {
		old := w.Load()
		at := segment.Pos(old) &^ frozen
		switch {
		case at >= pos:
			return true
		case old&frozen != 0 && at.Number() == pos.Number():
			return false
		case w.CompareAndSwap(old, uint64(pos)):
			p.word(pageCheck).Store(hintOf(pos))
			return true
		}
	}
}

// freeze keeps synced from moving on in segment n. complete says that all before n is synced.
func (p *page) freeze(n uint64, complete bool) {
	w := p.word(pageSynced)
	for {
		old := w.Load()
		next := old | frozen
		switch at := segment.Pos(old); {
		case at.Number() > n, at.Number() < n && !complete:
			return
		case at.Number() < n:
			next = uint64(segment.At(n, 0)) | frozen
		}
		if w.CompareAndSwap(old, next) {
			return
		}
	}
}

// hintOf guards the synced word on disk. The page reaches the disk whenever the kernel likes, so
// after a reboot a synced word that fits its check is an old one, but one that was true.
func hintOf(pos segment.Pos) uint64 { return (uint64(pos) ^ magicWord) * 0x9e3779b97f4a7c15 }

// hint is the synced position of before the reboot, as far as the page can tell; else 0.
func (p *page) hint() segment.Pos {
	if pos := p.synced(); p.word(pageMagic).Load() == magicWord && p.word(pageCheck).Load() == hintOf(pos) {
		return pos
	}
	return 0
}

// trusted tells whether the page was written since the boot of this host.
func (p *page) trusted(boot uint64) bool {
	return p.word(pageMagic).Load() == magicWord && p.word(pageBoot).Load() == boot
}

// bootWord folds a boot id into the page's boot word; never 0.
func bootWord(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64() | 1
}

// shout wakes everybody who sleeps on the bell, in all processes.
func (p *page) shout() {
	p.half(pageBell).Add(1)
	futexWake(&p.b[pageBell])
}
