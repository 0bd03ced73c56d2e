package page

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"iter"

	"github.com/ringfence/ringfence/internal/segment"
)

// world is two processes over one page and one disk, in which one thing happens at a time: an
// access to a word, a write, a sync. All that is clever in it is the code of the package; the
// world knows what a lock, a page cache and a disk do.
type world struct {
	p     *Page
	segs  map[uint64]*modelSeg
	locks [2]*proc // write, sync
	procs []*proc
	cur   *proc
	acks  []modelAck
	fails int // of writes and syncs that may still fail
	next  byte
}

const (
	blk        = segment.Block // header and frames take a block each
	lastFrame  = 3 * blk       // a segment has room for a header and two frames
	headerByte = 255
)

// modelSeg is a segment file: what its blocks hold for readers, and on the disk.
type modelSeg struct {
	cache, disk [4]byte
	dirty       [4]bool
	prevEnd     int64
}

type modelAck struct {
	at   segment.Pos // of the frame
	what byte
	sync bool
}

// proc is one process: a coroutine that stops ahead of everything that another one could notice.
type proc struct {
	name    string
	w       *world
	resume  func() (event, bool)
	stop    func()
	yield   func(event) bool
	ahead   event
	alive   bool
	chosen  int
	history uint64
	files   map[uint64]*modelFile // by segment: what is open
}

// modelFile is one open of a segment file.
type modelFile struct {
	owed  bool        // the next fdatasync tells of an error
	hears segment.Pos // bytes from here on were written while it was open
}

// event is what a process is about to do.
type event struct {
	options int
	ready   func() bool // nil: always
}

type killed struct{}

func newWorld(fails int) *world {
	w := &world{p: &Page{b: make([]byte, Size(1))}, segs: map[uint64]*modelSeg{}, fails: fails}
	w.seg(1).cache[0], w.seg(1).disk[0] = headerByte, headerByte
	w.p.Adopt(1, segment.At(1, blk), []int64{0})
	w.p.before = func(word int) {
		if w.cur != nil {
			w.cur.pause(event{options: 1})
			w.cur.note(uint64(word), w.p.word(word&^7).Load())
		}
	}
	return w
}

func (w *world) seg(n uint64) *modelSeg {
	if w.segs[n] == nil {
		w.segs[n] = &modelSeg{}
	}
	return w.segs[n]
}

func (w *world) start(name string, run func(p *proc)) *proc {
	p := &proc{name: name, w: w, alive: true, files: map[uint64]*modelFile{}}
	p.resume, p.stop = iter.Pull(func(yield func(event) bool) {
		defer func() {
			if r := recover(); r != nil && r != any(killed{}) {
				panic(r)
			}
		}()
		p.yield = yield
		run(p)
	})
	w.procs = append(w.procs, p)
	w.advance(p)
	return p
}

// advance lets a process do what it is about to do, and stops it ahead of the next thing.
func (w *world) advance(p *proc) {
	w.cur = p
	p.ahead, p.alive = p.resume()
	w.cur = nil
	if !p.alive {
		w.release(p)
	}
}

func (w *world) kill(p *proc) {
	p.alive = false
	p.stop()
	w.release(p)
}

func (w *world) release(p *proc) {
	for i := range w.locks {
		if w.locks[i] == p {
			w.locks[i] = nil
		}
	}
}

func (p *proc) pause(e event) {
	if !p.yield(e) {
		panic(killed{})
	}
}

// note makes what a process learned part of its state.
func (p *proc) note(vs ...uint64) {
	h := fnv.New64a()
	var b [8]byte
	for _, v := range append(vs, p.history) {
		binary.LittleEndian.PutUint64(b[:], v)
		h.Write(b[:])
	}
	p.history = h.Sum64()
}

// fate lets the world choose whether something fails.
func (p *proc) choose(options int) int {
	if p.w.fails == 0 {
		options = 1
	}
	p.pause(event{options: options})
	if p.w.fails == 0 {
		p.chosen = 0 // another process had the last failure meanwhile
	}
	if p.chosen > 0 {
		p.w.fails--
	}
	p.note(uint64(p.chosen))
	return p.chosen
}

func (p *proc) lock(i int) {
	p.pause(event{options: 1, ready: func() bool { return p.w.locks[i] == nil }})
	p.w.locks[i] = p
}

func (p *proc) unlock(i int) {
	p.pause(event{options: 1})
	p.w.locks[i] = nil
}

func (p *proc) write(at segment.Pos, what byte) {
	s := p.w.seg(at.Number())
	s.cache[at.Off()/blk], s.dirty[at.Off()/blk] = what, true
}

var errIO = fmt.Errorf("EIO")

// open opens a segment, once.
func (p *proc) open(n uint64) *modelFile {
	f := p.files[n]
	if f == nil {
		f = &modelFile{}
		p.files[n] = f
		f.hears = p.w.p.Reach(n)
	}
	return f
}

// fdatasync fails at will: then nobody knows what reached the disk, the blocks are clean, and each
// descriptor that is open now is told once. One that is opened later is not.
func (p *proc) fdatasync(n uint64) error {
	s, f := p.w.seg(n), p.files[n]
	if f.owed {
		p.pause(event{options: 1})
		return p.told(f)
	}
	if p.choose(2) == 1 {
		s.dirty = [4]bool{}
		for _, other := range p.w.procs {
			if o := other.files[n]; o != nil {
				o.owed = other != p
			}
		}
		return errIO
	}
	if f.owed { // it came while this process was stopped
		return p.told(f)
	}
	for i := range s.dirty {
		if s.dirty[i] {
			s.disk[i], s.dirty[i] = s.cache[i], false
		}
	}
	return nil
}

// told is the error that a descriptor is owed.
func (p *proc) told(f *modelFile) error {
	f.owed = false
	p.note(1) // what a process heard is part of its state
	return errIO
}

// Sync is Disk.
func (p *proc) Sync(n uint64, from segment.Pos) (bool, error) {
	if p.open(n).hears > from {
		return false, nil
	}
	return true, p.sync(n)
}

func (p *proc) sync(n uint64) error {
	err := p.fdatasync(n)
	if err != nil {
		p.w.p.Fail(n)
	}
	return err
}

// Again is Disk.
func (p *proc) Again(n uint64, from, to segment.Pos) error {
	mine := p.w.locks[0] == p
	if !mine {
		p.lock(0)
	}
	f := p.open(n)
	end := p.w.p.Written().Off()
	if n != p.w.p.Written().Number() {
		end = p.w.seg(n + 1).prevEnd
	}
	for off := from.Off(); off < end; off += blk {
		p.write(segment.At(n, off), p.w.seg(n).cache[off/blk])
	}
	f.hears = segment.At(n, 0)
	if !mine {
		p.unlock(0)
	}
	return p.sync(n)
}

// append is one append with a sync, or without. kind says how its write goes.
func (p *proc) append(sync bool) {
	w := p.w
	p.lock(0)
	at, ok := p.catchUp()
	if ok && at.Off() > lastFrame-blk {
		if sync {
			_ = p.leadAlone(false)
		}
		at = p.begin(at)
	}
	what, outcome := p.put(at, ok, !sync)
	p.unlock(0)
	if outcome != 0 {
		return
	}
	if !sync {
		w.acks = append(w.acks, modelAck{at: at, what: what})
		return
	}
	p.await(at, what)
}

// await leads until the fate of a frame is known, and acknowledges it when it is durable.
func (p *proc) await(at segment.Pos, what byte) { p.awaitBy(at, what, true) }

// awaitBy is await with the sync lock, or without it: its holder is stopped.
func (p *proc) awaitBy(at segment.Pos, what byte, locked bool) {
	w, end := p.w, at+blk
	for range 4 {
		switch w.p.FateOf(end) {
		case Durable:
			w.acks = append(w.acks, modelAck{at: at, what: what, sync: true})
			return
		case Unknown:
			return
		case InHeader:
			if w.seg(at.Number()+1).prevEnd >= end.Off() {
				w.acks = append(w.acks, modelAck{at: at, what: what, sync: true})
			}
			return
		}
		if !locked {
			_ = w.p.Lead(p, false)
			continue
		}
		p.lock(1)
		_ = w.p.Lead(p, true)
		p.unlock(1)
	}
}

// catchUp deals with what others left: a broken segment is cut, bytes behind the log are wiped.
func (p *proc) catchUp() (segment.Pos, bool) {
	pg := p.w.p
	at := pg.Written()
	n := at.Number()
	p.open(n)
	if pg.Broken() == n {
		return p.begin(max(segment.At(n, blk), pg.Cut(n))), true
	}
	if end, left := pg.Leftover(); left {
		for off := at; off < end; off += blk {
			p.write(off, 0)
		}
		pg.Wiped()
	}
	return at, true
}

// begin starts the segment behind the one that ends at end.
func (p *proc) begin(end segment.Pos) segment.Pos {
	n := end.Number() + 1
	p.pause(event{options: 1})
	p.w.seg(n).prevEnd = end.Off()
	p.files[n] = &modelFile{hears: segment.At(n, 0)}
	p.write(segment.At(n, 0), headerByte)
	p.w.p.Begin(segment.At(n, blk), 0)
	return segment.At(n, blk)
}

// put writes a frame: well, not at all (EIO), or so that the disk is full behind it.
func (p *proc) put(at segment.Pos, ok, kept bool) (what byte, outcome int) {
	pg, n := p.w.p, at.Number()
	pg.Intend(at + blk)
	outcome = p.choose(3)
	p.w.next++
	what = p.w.next
	if outcome != 1 {
		p.write(at, what)
	}
	switch outcome {
	case 0:
		pg.Publish(at+blk, kept)
	case 1:
		pg.Fail(n)
	case 2:
		p.write(at, 0)
		if p.leadAlone(true) == nil {
			pg.Wiped()
		} else {
			pg.Fail(n)
		}
	}
	return what, outcome
}

// leadAlone leads with the sync lock or, unless that is a must, without it.
func (p *proc) leadAlone(must bool) error {
	p.pause(event{options: 1})
	locked := p.w.locks[1] == nil
	p.note(map[bool]uint64{true: 1}[locked])
	if locked {
		p.w.locks[1] = p
		defer p.unlock(1)
	} else if must {
		return errIO
	}
	return p.w.p.Lead(p, locked)
}

// zero fills a block of the segment that was the newest when it looked.
func (p *proc) zero() {
	n := p.w.p.Written().Number()
	p.lock(0)
	if off, ok := p.w.p.ZeroFrom(n, lastFrame); ok {
		p.write(segment.At(n, off), 0)
		p.w.p.Zeroed(n, off+blk)
	}
	p.unlock(0)
}
