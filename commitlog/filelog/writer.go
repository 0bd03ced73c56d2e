package filelog

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

// What a writer knows follows from the frames alone: which offset comes next in each partition, what
// each producer has appended, the checksum that the next frame must name. So it needs no memory that
// processes share. The process that gets the write lock first takes in what others wrote since it had it
// (catchUp), by the same walk over the headers that readers do, wipes what a writer that died left
// behind the end, and appends. Damage on the way is decided about under that lock only, by a new
// segment, whose bases lie past all that the damaged bytes can have held (docs/design/segments-and-recovery.md).

// maxWrite bounds one write, and with it the writer's buffer.
const maxWrite = 1 << 20

// writer appends frames under the write lock. Its state is that of the log at (seg, off): all of
// it follows from the frames below.
type writer struct {
	s      *store
	seg    *seg
	off    int64
	chain  uint32
	next   []int64
	prods  *producers
	sealed bool
	buf    []byte
}

func (w *writer) close() {
	if w.seg != nil {
		w.s.segs.put(w.seg)
		w.seg = nil
	}
}

// load puts the writer at the start of segment n.
func (w *writer) load(n uint64) error {
	g, err := w.s.segs.get(n)
	return w.enter(n, g, err)
}

// enter is load of what get said.
func (w *writer) enter(n uint64, g *seg, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", kindOf(err), err)
	}
	known, err := segment.ParseProducers(g.h.Producers, len(g.h.Bases))
	if err != nil {
		w.s.segs.put(g)
		return fmt.Errorf("segment %d: %w: %w", n, kindOf(err), err)
	}
	w.close()
	w.seg, w.off, w.chain = g, g.h.Length, g.h.CRC
	w.next = append(w.next[:0], g.h.Bases...)
	w.prods, w.sealed = newProducers(known), g.h.Sealed
	return nil
}

// walkTo takes in the frames up to end, which are part of the log. When some are damaged, and
// nothing behind the damage tells how far a partition went, the partition moves past any offset
// that can have been in there.
func (w *writer) walkTo(end int64) (damaged bool, err error) {
	walk := segment.Walker{Data: w.seg.data, Epoch: w.seg.h.Epoch(), Off: w.off}
	t := newTally(w.next)
	err = guard(func() {
		for {
			var f segment.Frame
			_, bad, err := walk.Next(end, &f)
			switch {
			case err != nil:
				return
			case bad != nil:
				w.s.reportDamage(w.seg.number, bad)
				t.lost(bad, &f)
				damaged = true
			default:
				w.take(&f)
				t.saw(&f)
			}
		}
	})
	w.off = end
	w.next = t.bases()
	return damaged, err
}

func (w *writer) take(f *segment.Frame) {
	w.chain = f.CRC
	switch {
	case f.Kind == segment.Seal:
		w.sealed = true
	case f.Partition < len(w.next):
		w.next[f.Partition] = f.Next()
		w.prods.add(f)
	}
}

// catchUp learns what others wrote. After a segment was broken it starts the next one.
func (w *writer) catchUp() error {
	page := w.s.page
	at := page.Written()
	if w.seg == nil || w.seg.number != at.Number() {
		if err := w.load(at.Number()); err != nil {
			return err
		}
	}
	if page.Broken() != at.Number() {
		if w.off == at.Off() {
			return w.wipeLeftover()
		}
		damaged, err := w.walkTo(at.Off())
		if err != nil {
			return err
		}
		if damaged {
			return w.start(0)
		}
		return w.wipeLeftover()
	}
	// Behind the last position that was promised nothing in the segment can be believed.
	if err := w.load(at.Number()); err != nil {
		return err
	}
	cut := max(w.seg.h.Length, page.Cut(at.Number()).Off())
	if _, err := w.walkTo(cut); err != nil {
		return err
	}
	if err := w.start(0); err != nil {
		return err // else each try would log that it is done
	}
	w.s.log.Warn("going on in a new segment after a write or sync error", "segment", at.Number(), "cut", cut)
	return nil
}

// start begins the next segment, with room for need bytes of frames.
func (w *writer) start(need int64) error {
	return w.startBehind(segment.At(w.seg.number, w.off), need)
}

// startBehind is start behind an end of the log that is another one than the writer's.
func (w *writer) startBehind(end segment.Pos, need int64) error {
	s := w.s
	n := end.Number() + 1
	h := segment.Header{
		TopicID: s.meta.ID, Number: n, PrevEnd: end.Off(), Synced: s.page.Synced(),
		Salt: rand.Uint64(), Sealed: w.sealed, Bases: w.next, Producers: w.prods.encode(),
	}
	if w.seg.number == end.Number() {
		h.PrevCRC = w.seg.h.CRC
	}
	s.now().stamp(&h)
	b := segment.AppendHeader(nil, &h) // tells the length
	name := segmentName(n)
	f, err := s.fs.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return explain("make segment "+s.fs.Path(name), err)
	}
	h.Size, err = f.Size()
	zeroed := h.Size
	if want := 2*h.Length + max(s.growTo(w.off-w.seg.h.Length), need); err == nil && h.Size < want {
		h.Size, err = want, f.Truncate(want)
	}
	if err == nil {
		b = segment.AppendHeader(b[:0], &h)
		_, err = f.WriteAt(b, h.Size-h.Length)
	}
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil && s.page.Prepared() < n {
		err = s.fs.SyncDir(".")
	}
	if err != nil {
		return explain("start segment "+s.fs.Path(name), errors.Join(err, f.Close()))
	}
	g, err := s.segs.made(n, f)
	if err := w.enter(n, g, err); err != nil {
		return err
	}
	s.page.Begin(segment.At(n, w.off), segment.At(n, zeroed))
	s.nudge()
	return nil
}

// growTo is the room for frames of a segment after one that used so many bytes.
func (s *store) growTo(used int64) int64 {
	return min(max(4*used, firstSegmentBytes), s.c.SegmentBytes)
}

// roll starts a new segment. At level sync the old one is synced first, so that a sync error is
// always one of the newest segment.
func (w *writer) roll(need int64) error {
	if w.s.syncing() {
		if err := w.s.leadAlone(); err != nil {
			return err
		}
	}
	return w.start(need)
}

// write appends the frames of a batch that may be appended and answers for the others in their
// err. It returns the position behind the last that others must wait for. The caller has the
// write lock.
func (w *writer) write(b *batch) segment.Pos {
	if err := w.ready(); err != nil {
		for _, p := range b.frames {
			p.err = err
		}
		return 0
	}
	end := segment.At(w.seg.number, w.off)
	rest := b.frames
	for len(rest) > 0 {
		n, size := w.layout(rest)
		if n == 0 { // the segment is full
			if err := w.roll(segment.AlignUp(int64(len(rest[0].buf)))); err != nil {
				failAll(rest, notDone(err))
				break
			}
			continue
		}
		if err := w.put(size); err != nil {
			failAll(rest[:n], err)
			failAll(rest[n:], notDone(err))
			break
		}
		rest = rest[n:]
		end = segment.At(w.seg.number, w.off)
	}
	return end
}

func (w *writer) ready() error {
	if !w.s.spared() {
		return notFound(w.s.name)
	}
	if err := w.catchUp(); err != nil {
		return notDone(err)
	}
	return nil
}

// notDone is the error of frames that were not written. Of what others wait for the outcome may be unknown:
// nothing of these is.
func notDone(err error) error {
	if errors.Is(err, fault.NotDone) {
		return err
	}
	if errors.Is(err, fault.Unknown) {
		err = fmt.Errorf("%w: %s", fault.Unavailable, err.Error())
	}
	return fmt.Errorf("nothing was appended: %w: %w", fault.NotDone, err)
}

// failAll fails frames that were not refused for a reason of their own. One that is stored already
// shares the fate of what is written now: it may wait for the same sync. Acknowledging it after a failed sync
// lost data in the crash matrix; and since an append before this one may have stored it, it is never surely absent.
func failAll(frames []*pending, err error) {
	for _, p := range frames {
		switch {
		case p.err == nil:
			p.err = err
		case errors.Is(p.err, errDuplicate) && errors.Is(err, fault.NotDone):
			p.err = fmt.Errorf("an append before this one may have stored it: %w: %s", fault.Unknown, err.Error())
		case errors.Is(p.err, errDuplicate):
			p.err = err
		}
	}
}

// admit decides whether a frame may be appended now.
func (w *writer) admit(p *pending) bool {
	f := &p.frame
	if f.ProducerID != 0 && f.Kind == segment.Records {
		first, err := w.prods.check(f)
		// The one before may have met the seal, too: then it left no gap.
		if err != nil && !(w.sealed && errors.Is(err, fault.Invalid)) {
			f.Base, p.err = first, err
			return false
		}
	}
	switch {
	case w.sealed && f.Kind == segment.Seal:
		p.err = errDuplicate
		return false
	case w.sealed:
		p.err = fmt.Errorf("topic %q: %w", w.s.name, fault.Sealed)
		return false
	}
	return true
}

// fence is the frame that a repeated append leaves when it is the first thing that is heard of a
// higher epoch: without records, it keeps the producer's other lives out. Otherwise nil.
func (w *writer) fence(p *pending) (*segment.Frame, []byte) {
	f := &p.frame
	if w.sealed || !errors.Is(p.err, errDuplicate) || f.Kind != segment.Records || !w.prods.announces(f) {
		return nil, nil
	}
	return &segment.Frame{
		Kind: segment.Records, Partition: f.Partition, Time: f.Time, MaxTime: math.MinInt64,
		ProducerID: f.ProducerID, ProducerEpoch: f.ProducerEpoch, Sequence: f.Sequence,
	}, p.buf[:segment.FrameHeader]
}

// layout places frames in the buffer until the segment or the buffer is full. It returns how many
// it took, those that were refused included, and the bytes to write. State moves on as if they
// were written; put takes it back when they can't be.
func (w *writer) layout(frames []*pending) (n int, size int64) {
	w.buf = w.buf[:0]
	off, epoch, synced := w.off, w.seg.h.Epoch(), w.s.page.Synced()
	for _, p := range frames {
		room := segment.AlignUp(int64(len(p.buf)))
		if off+room > w.seg.limit || n > 0 && int64(len(w.buf))+room > maxWrite {
			break
		}
		n++
		f, b := &p.frame, p.buf
		if !w.admit(p) {
			if f, b = w.fence(p); f == nil {
				continue
			}
			room = int64(len(b))
		}
		f.Prev, f.Synced = w.chain, synced
		if f.Kind == segment.Records {
			f.Base = w.next[f.Partition]
		}
		at := len(w.buf)
		w.buf = append(w.buf, b...)
		segment.SealFrame(w.buf[at:], f, epoch, off)
		for len(w.buf) < at+int(room) {
			w.buf = append(w.buf, 0)
		}
		w.take(f)
		off += room
	}
	return n, int64(len(w.buf))
}

// put writes the buffer behind the log, padded with zeros to a whole block, and makes its frames
// part of the log.
func (w *writer) put(size int64) error {
	if size == 0 {
		return nil
	}
	end := (w.off + size + segment.Block - 1) &^ (segment.Block - 1)
	pad := min(end, w.seg.limit) - w.off - size
	page := w.s.page
	page.Intend(segment.At(w.seg.number, w.off+size))
	if n, err := w.seg.f.WriteAt(append(w.buf, zeros[:pad]...), w.off); err != nil {
		return w.undo(n, err)
	}
	w.off += size
	at := segment.At(w.seg.number, w.off)
	page.Publish(at, !w.s.syncing())
	half := w.seg.limit / 2
	if w.off >= half && w.off-size < half || size < smallWrite && page.WantsZeros(at, w.seg.limit, zeroSlack) {
		w.s.nudge()
	}
	return nil
}

var zeros [segment.Block]byte

// undo deals with a write that failed after n bytes. When the disk is full, these are wiped
// durably, so that the frames are certainly absent, whatever becomes of what is written over them;
// not more than that, since there may be no block behind it. Any other error breaks the segment:
// the fate of the frames is unknown.
func (w *writer) undo(n int, err error) error {
	defer w.forget()
	if noRoom(err) {
		if n == 0 || w.wipe(int64(n)) == nil && w.s.flush() == nil {
			w.s.page.Wiped()
			return notDone(explain("append", err))
		}
	}
	w.s.breakSegment(w.seg.number, err)
	return fmt.Errorf("topic %q: write to segment %d: %w: %w", w.s.name, w.seg.number, fault.Unknown, err)
}

// wipeLeftover wipes what a writer that was killed left behind the log. Those frames are sound, and
// would pass for a part of the log if what is written in front of them were damaged one day. It
// needs no sync of its own: no caller was answered that they are absent, and the sync of what is
// acknowledged in front of them covers it.
func (w *writer) wipeLeftover() error {
	end, left := w.s.page.Leftover()
	if !left {
		return nil
	}
	if err := w.wipe(end.Off() - w.off); err != nil {
		return explain(fmt.Sprintf("topic %q: wipe what a writer that died left in segment %d", w.s.name, w.seg.number), err)
	}
	w.s.page.Wiped()
	return nil
}

// wipe puts n zeros behind the log.
func (w *writer) wipe(n int64) error { return w.seg.wipe(w.off, w.off+n) }

// forget makes the next catchUp read the state from the segment again.
func (w *writer) forget() {
	w.close()
}
