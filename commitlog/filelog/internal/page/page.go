// Package page is the control page of a topic of the file log: words in a file that every process
// of the topic has mapped. No other process stores to a word.
//
// Positions only grow. The page is a cache of what the segments say: what is nowhere else, written
// and acked, counts only while a process has the topic open; first is repeated durably by the trim file.
//
// # The order of the stores
//
// A process may be killed between any two stores, and only some stores happen under a lock, so
// each transition is a sequence of stores to single words of which every prefix is a sound page:
//
//	append    write lock  Intend (bytes may stand up to here), the bytes, Publish: written, acked
//	segment   write lock  the header, Begin: written, then zeroed
//	zeros     write lock  ZeroFrom, the zeros, Zeroed
//	sync      sync lock   Lead: a mark, the fdatasyncs, synced unless that was frozen, the mark off
//	failure   none        Fail(n): broken, then synced is marked, so that no Sync under way lands
//	cut       write lock  Cut(n) marks synced itself: its caller may be ahead of the failed one
//
// What each of them decides is a pure function of the words that it has read (move.go). The test
// runs two processes through all interleavings of them, with a kill between any two accesses.
package page

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// The words, by their place in the page.
const (
	wordMagic    = 0
	wordWritten  = 64  // Pos: every frame below it is part of the log
	wordHolder   = 72  // the process that took the write lock last, for messages
	wordIntent   = 80  // Pos: what stands between written and it was never part of the log
	wordSynced   = 128 // Pos: every byte below it is on stable storage; the lowest bits are a mark
	wordCheck    = 136 // a function of synced: see hintOf
	wordSyncing  = 144 // Pos up to which the holder of the sync lock syncs; 0: no process does
	wordAcked    = 192 // Pos: acknowledged at level OS
	wordBroken   = 200 // the newest segment that had a write or sync error; 0: none
	wordPrepared = 208 // the newest segment whose file has a durable name ahead of its use
	wordLow      = 216 // the oldest segment that is kept
	wordDeleted  = 224 // Life
	wordZeroed   = 240 // Pos: its segment's file is allocated and full of zeros up to here
	wordBell     = 256 // u32 futex: changes when there is news
	wordWaiters  = 260 // u32: processes that sleep on bell; the dead may stay counted
	wordFirst    = 4096

	magic = 0x3265_6761_5066_5231
)

// Size is the size of the page of a topic with so many partitions.
func Size(partitions int) int64 {
	return (wordFirst + 8*int64(partitions) + 4095) &^ 4095
}

// Page is a mapped control page. It is safe for concurrent use; Close ends all use.
type Page struct {
	m vfs.Mapping
	b []byte
	f vfs.File
	// before is called ahead of each access to a word, by a test.
	before func(word int)
}

// Open maps a control page. partitions may be 0 when First is not needed.
func Open(fsys vfs.FS, name string, partitions int) (*Page, error) {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if want := Size(partitions); err == nil && size < want {
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
	return &Page{m: m, b: m.Bytes(), f: f}, nil
}

// Close unmaps the page.
func (p *Page) Close() error {
	err := p.m.Close()
	if e := p.f.Close(); err == nil {
		err = e
	}
	return err
}

func (p *Page) word(w int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&p.b[w])) }
func (p *Page) half(w int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&p.b[w])) }

func (p *Page) load(w int) uint64 {
	if p.before != nil {
		p.before(w)
	}
	return p.word(w).Load()
}

func (p *Page) store(w int, v uint64) {
	if p.before != nil {
		p.before(w)
	}
	p.word(w).Store(v)
}

func (p *Page) swap(w int, old, v uint64) bool {
	if p.before != nil {
		p.before(w)
	}
	return p.word(w).CompareAndSwap(old, v)
}

// raise moves a word forward to at least v.
func (p *Page) raise(w int, v uint64) {
	for {
		old := p.load(w)
		if old >= v || p.swap(w, old, v) {
			return
		}
	}
}

func (p *Page) pos(w int) segment.Pos { return segment.Pos(p.load(w)) }

// Written is the position below which every frame is part of the log.
func (p *Page) Written() segment.Pos { return p.pos(wordWritten) }

// Synced is the position below which every byte is on stable storage.
func (p *Page) Synced() segment.Pos { return unmarked(p.load(wordSynced)) }

// Broken is the newest segment that had a write or sync error; 0: none.
func (p *Page) Broken() uint64 { return p.load(wordBroken) }

// Low is the oldest segment that is kept.
func (p *Page) Low() uint64 { return p.load(wordLow) }

// Prepared is the newest segment whose file was made ahead of its use.
func (p *Page) Prepared() uint64 { return p.load(wordPrepared) }

// Life is what the page knows of the topic's life.
type Life uint64

// The topic file's name decides when a topic is condemned.
const (
	Alive Life = iota
	Condemned
	Deleted
)

// Life tells whether the topic was deleted.
func (p *Page) Life() Life { return Life(p.load(wordDeleted)) }

// First is the logical start of a partition.
func (p *Page) First(partition int) int64 { return int64(p.load(wordFirst + 8*partition)) }

// Holder is the process that took the write lock last.
func (p *Page) Holder() uint64 { return p.load(wordHolder) }

// Hold notes the holder of the write lock, which is the caller.
func (p *Page) Hold(pid int) { p.store(wordHolder, uint64(pid)) }

// Prepare notes that the file of segment n has a durable name.
func (p *Page) Prepare(n uint64) { p.raise(wordPrepared, n) }

// Keep moves the oldest segment that is kept, or puts it back when a drop failed. The caller has
// the meta lock.
func (p *Page) Keep(low uint64) { p.store(wordLow, low) }

// Trim moves the logical start of a partition.
func (p *Page) Trim(partition int, first int64) { p.raise(wordFirst+8*partition, uint64(first)) }

// Condemn says that the topic is about to be deleted. The caller has the write lock.
func (p *Page) Condemn() { p.store(wordDeleted, uint64(Condemned)) }

// Spare takes that back, unless it was deleted. The caller has the write lock.
func (p *Page) Spare() { p.swap(wordDeleted, uint64(Condemned), uint64(Alive)) }

// MarkDeleted says for ever that the topic is deleted, and wakes all waiters.
func (p *Page) MarkDeleted() {
	p.store(wordDeleted, uint64(Deleted))
	p.Shout()
}
