package fileregistry

import (
	"sync/atomic"
	"unsafe"

	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/vfs"
)

// The control file is both the kernel lock that orders writers and one page of words that all
// processes map. The words are true while a process lives that has them mapped (life.go); a process that
// comes later has them from the disk, in any older state, and takes them for a hint: synced and gen
// are only ever stored after the sync that they tell of, so that whatever value of them reached the
// disk is evidence. check tells a pair of them from bytes that something else left there.
//
//	  0  magic
//	 64  written   LSN up to which frames are written
//	 72  synced    LSN up to which they are durable
//	 80  gen       the current journal generation; its file is journal-<gen mod 2>
//	 88  sealed    the generation that takes no more frames: an fdatasync failed in it, or its
//	               content was recovered, and what a lost future of it wrote may lie behind
//	 96  holder    process that holds the lock, for messages; 0: none, or it has not said so yet
//	104  rotating  not 0 while it is not certain that the disk has the header of that generation, the
//	               one in force or the next one (agreeHeaders)
//	112  check     a function of synced and gen
//	120  syncs     for each of the two files, how many syncs of it are under way or were killed (doubt.go)
//	4096 slots     a heartbeat word for each session: tag(40) counter(23) dead(1)
const (
	controlMagic = 0x3254434746455246
	slotBase     = 4096
	slotCount    = 4096
	controlSize  = slotBase + 8*slotCount

	tagShift = 24
	beat     = 2 // the counter's unit; bit 0 is dead
	dead     = 1
)

type control struct {
	m vfs.Mapping

	magic, written, synced, gen, sealed, holder, rotating, check word

	syncs [2]word
}

// word is a shared word.
type word struct {
	*atomic.Uint64
	hook hook.Access
}

func (w word) Load() uint64 {
	v := w.Uint64.Load()
	w.hook.Loaded()
	return v
}

func (w word) Store(v uint64) {
	w.hook.Storing()
	w.Uint64.Store(v)
}

func (w word) CompareAndSwap(old, v uint64) bool {
	w.hook.Storing()
	return w.Uint64.CompareAndSwap(old, v)
}

func (w word) Add(n uint64) uint64 {
	w.hook.Storing()
	return w.Uint64.Add(n)
}

func mapControl(f vfs.File, access hook.Access) (*control, error) {
	m, err := f.Map(controlSize, true)
	if err != nil {
		return nil, err
	}
	return controlOf(m, access), nil
}

func controlOf(m vfs.Mapping, access hook.Access) *control {
	c := &control{m: m, magic: word{hook: access}}
	c.magic = c.word(0)
	for i, w := range []*word{&c.written, &c.synced, &c.gen, &c.sealed, &c.holder, &c.rotating, &c.check, &c.syncs[0], &c.syncs[1]} {
		*w = c.word(64 + 8*i)
	}
	return c
}

// word is the aligned word at off; mappings start at a page.
func (c *control) word(off int) word {
	return word{Uint64: (*atomic.Uint64)(unsafe.Pointer(&c.m.Bytes()[off])), hook: c.magic.hook}
}

func (c *control) slot(i int) word { return c.word(slotBase + 8*i) }

// hint is what the page of an earlier life is evidence of.
type hint struct {
	synced uint64 // LSN that was certainly durable
	gen    uint64 // generation that was certainly in force, and durable
}

// hint is what no living process vouches for; nothing when it does not fit together.
func (c *control) hint() hint {
	h := hint{c.synced.Load(), c.gen.Load()}
	if c.magic.Load() != controlMagic || c.check.Load() != h.check() {
		return hint{}
	}
	return h
}

func (h hint) check() uint64 {
	return ((h.synced^controlMagic)*0x9e3779b97f4a7c15 ^ h.gen) * 0xff51afd7ed558ccd
}

// raiseSynced tells all processes that all below lsn is durable.
func (c *control) raiseSynced(lsn uint64) {
	for {
		old := c.synced.Load()
		if old >= lsn || c.synced.CompareAndSwap(old, lsn) {
			break
		}
	}
	c.vouch()
}

// vouch makes the present words a hint. Another process that raises one of them meanwhile does so
// as well; the last one looks at the words last.
func (c *control) vouch() {
	for {
		h := hint{c.synced.Load(), c.gen.Load()}
		c.check.Store(h.check())
		if h == (hint{c.synced.Load(), c.gen.Load()}) {
			return
		}
	}
}

// tagged says whether a heartbeat word is of the session with that tag.
func tagged(word, tag uint64) bool { return word>>tagShift == tag }

// renew moves the heartbeat on; false when the session was declared dead or its slot is another's.
func renew(slot word, tag uint64) bool {
	for {
		w := slot.Load()
		if !tagged(w, tag) || w&dead != 0 {
			return false
		}
		next := tag<<tagShift | (w+beat)&(1<<tagShift-1)
		if slot.CompareAndSwap(w, next) {
			return true
		}
	}
}

// declareDead declares the session dead, whatever its heartbeat; from then on it can't be renewed.
func declareDead(slot word, tag uint64) {
	for {
		w := slot.Load()
		if !tagged(w, tag) || w&dead != 0 || slot.CompareAndSwap(w, w|dead) {
			return
		}
	}
}
