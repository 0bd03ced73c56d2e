package fileregistry

import (
	"hash/fnv"
	"sync/atomic"
	"unsafe"

	"github.com/ringfence/ringfence/internal/vfs"
)

// The control file is both the kernel lock that orders writers and one page of words that all
// processes map. It is worth nothing after a reboot, but for `synced`: that word is only ever
// stored after the sync it tells of, so whatever value of it reached the disk is evidence.
//
//	  0  magic
//	  8  boot      hash of the boot ID under which the words below are valid
//	 16  ready     1 when they are initialised
//	 64  written   LSN up to which frames are written
//	 72  synced    LSN up to which they are durable
//	 80  gen       the current journal generation; its file is journal-<gen mod 2>
//	 88  failed    the generation in which an fdatasync failed: it can't be trusted any more
//	 96  holder    process that holds the lock, for messages
//	104  rotating  not 0 while a new generation's header may be on disk that is not in force
//	4096 slots     a heartbeat word for each session: tag(40) counter(23) dead(1)
const (
	controlMagic = 0x3154434746455246
	slotBase     = 4096
	slotCount    = 4096
	controlSize  = slotBase + 8*slotCount

	tagShift = 24
	beat     = 2 // the counter's unit; bit 0 is dead
	dead     = 1
)

type control struct {
	m vfs.Mapping

	magic, boot, ready, written, synced, gen, failed, holder, rotating *atomic.Uint64
}

func mapControl(f vfs.File) (*control, error) {
	m, err := f.Map(controlSize, true)
	if err != nil {
		return nil, err
	}
	c := &control{m: m}
	for i, w := range []**atomic.Uint64{&c.magic, &c.boot, &c.ready} {
		*w = c.word(8 * i)
	}
	for i, w := range []**atomic.Uint64{&c.written, &c.synced, &c.gen, &c.failed, &c.holder, &c.rotating} {
		*w = c.word(64 + 8*i)
	}
	return c, nil
}

// word is the aligned word at off; mappings start at a page.
func (c *control) word(off int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&c.m.Bytes()[off]))
}

func (c *control) slot(i int) *atomic.Uint64 { return c.word(slotBase + 8*i) }

// current says whether the words are valid in this boot.
func (c *control) current(boot string) bool {
	return c.magic.Load() == controlMagic && c.boot.Load() == bootHash(boot) && c.ready.Load() == 1
}

// evidence is the LSN that was certainly durable.
func (c *control) evidence() uint64 {
	if c.magic.Load() != controlMagic {
		return 0
	}
	return c.synced.Load()
}

// raiseSynced tells everybody that all below lsn is durable.
func (c *control) raiseSynced(lsn uint64) {
	for {
		old := c.synced.Load()
		if old >= lsn || c.synced.CompareAndSwap(old, lsn) {
			return
		}
	}
}

func bootHash(boot string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(boot))
	return h.Sum64()
}

// tagged says whether a heartbeat word is of the session with that tag.
func tagged(word, tag uint64) bool { return word>>tagShift == tag }

// renew moves the heartbeat on; false when the session was declared dead or its slot is another's.
func renew(slot *atomic.Uint64, tag uint64) bool {
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

// bury declares the session dead, whatever its heartbeat; from then on it can't be renewed.
func bury(slot *atomic.Uint64, tag uint64) {
	for {
		w := slot.Load()
		if !tagged(w, tag) || w&dead != 0 || slot.CompareAndSwap(w, w|dead) {
			return
		}
	}
}
