package filelog

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

// recover makes the control page say what the segments say. It runs once per boot of the host
// and topic, under the write lock.
func (s *store) recover(boot uint64) error {
	numbers, err := s.segmentNumbers()
	if err != nil {
		return explain("list "+s.fs.Path(s.dir), err)
	}
	numbers, err = s.removeUnstarted(numbers)
	if err != nil {
		return err
	}
	low, top := numbers[0], numbers[len(numbers)-1]
	sc := &scan{s: s, promised: s.page.hint()}
	if err := sc.run(low, top); err != nil {
		return err
	}
	cut, torn := sc.cut()
	s.log.Info("recovered after a restart of the host", "end", cut.String(), "promised", sc.promised.String(), "damaged", len(torn))
	for i := range torn {
		s.reportDamage(torn[i].number, &torn[i].Damage)
	}
	if err := s.removeAbove(cut.Number(), numbers); err != nil {
		return err
	}
	for n := sc.from; n <= cut.Number(); n++ {
		if err := s.settle(n); err != nil {
			return explain(fmt.Sprintf("sync segment %d", n), err)
		}
	}
	firsts := s.readTrim()
	for p, f := range firsts {
		s.page.word(pageFirst + 8*p).Store(uint64(f))
	}
	for _, off := range []int{pagePoison, pagePrepared, pageDeleted} {
		s.page.word(off).Store(0)
	}
	s.page.half(pageWaiters).Store(0)
	s.page.word(pageLow).Store(low)
	for _, off := range []int{pageWritten, pageSynced, pageAcked, pageZeroed} {
		s.page.word(off).Store(uint64(cut))
	}
	if err := s.leaveDamaged(cut, torn); err != nil {
		return err
	}
	s.page.word(pageCheck).Store(hintOf(s.page.synced()))
	s.page.word(pageMagic).Store(magicWord)
	s.page.word(pageBoot).Store(boot)
	return nil
}

// settle makes what a crash left of a segment durable, with a header at its start.
func (s *store) settle(n uint64) error {
	g, err := s.segs.get(n)
	if neverStarted(err) {
		return nil // see headerFrom
	}
	if err != nil {
		return err
	}
	defer s.segs.put(g)
	if !g.names(g.data) {
		s.reportDamage(n, &segment.Damage{To: g.h.Length, Detail: "the header was restored from its copy"})
		if _, err := g.f.WriteAt(segment.AppendHeader(nil, g.h), 0); err != nil {
			return err
		}
	}
	return g.f.SyncData()
}

// leaveDamaged starts a new segment when the newest one is damaged, past all offsets that the
// damaged bytes can have held.
func (s *store) leaveDamaged(cut segment.Pos, torn []tornRange) error {
	if !slices.ContainsFunc(torn, func(t tornRange) bool { return t.number == cut.Number() }) {
		return nil
	}
	w := &s.w
	if err := w.load(cut.Number()); err != nil {
		return err
	}
	if _, err := w.walkTo(cut.Off()); err != nil {
		return err
	}
	if err := w.start(0); err != nil {
		return err
	}
	at := segment.At(w.seg.number, w.off)
	if err := w.seg.f.SyncData(); err != nil {
		return explain("sync a new segment", err)
	}
	s.page.setSynced(at)
	s.page.raise(pageAcked, uint64(at))
	return nil
}

func (s *store) segmentNumbers() ([]uint64, error) {
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), ".seg")
		if n, err := strconv.ParseUint(digits, 10, 32); ok && err == nil && segmentName(n) == e.Name() {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// removeUnstarted removes the files behind the newest segment that was started: prepared ones,
// and ones whose header was written but no frame. Nothing in them was ever acknowledged.
func (s *store) removeUnstarted(numbers []uint64) ([]uint64, error) {
	for len(numbers) > 0 {
		n := numbers[len(numbers)-1]
		started, err := s.started(n, len(numbers) == 1)
		if err != nil {
			return nil, err
		}
		if started {
			return numbers, nil
		}
		numbers = numbers[:len(numbers)-1]
		if err := s.fs.Remove(path.Join(s.dir, segmentName(n))); err != nil {
			return nil, explain("remove an unused segment", err)
		}
	}
	return nil, fmt.Errorf("topic %q: no segment in %s: %w", s.name, s.fs.Path(s.dir), fault.Corrupt)
}

// started tells whether segment n holds a sound frame, or, when it is the only one, a sound header.
func (s *store) started(n uint64, only bool) (bool, error) {
	g, err := s.segs.get(n)
	name := s.fs.Path(path.Join(s.dir, segmentName(n)))
	switch {
	case errors.Is(err, fault.NotFound):
		return false, nil // still the header of an earlier life
	case errors.Is(err, segment.ErrHeader):
		return s.startedBare(n, name, err)
	case err != nil:
		return false, explain("open segment "+name, err)
	}
	defer s.segs.put(g)
	if only {
		return true, nil
	}
	found := int64(-1)
	err = guard(func() { found = segment.Find(g.data[:g.limit], g.h.Epoch(), g.h.Length) })
	return found >= 0, err
}

// startedBare looks at a segment without a sound header. Frames in it that nothing promised are
// what a crash left of the start of a segment. Promised ones mean that the header was damaged
// later, with its copy: an error that a person must look at.
func (s *store) startedBare(n uint64, name string, cause error) (bool, error) {
	b, err := readFile(s.fs, path.Join(s.dir, segmentName(n)))
	if err != nil {
		return false, explain("read segment "+name, err)
	}
	promised := s.page.hint()
	var f segment.Frame
	epoch := segment.Epoch(s.meta.ID, n)
	at := segment.Find(b, epoch, 0)
	for first := at; at >= 0; at = segment.Find(b, epoch, at+segment.Align) {
		if segment.Check(b, epoch, at, &f) == nil {
			promised = max(promised, f.Synced)
		}
		if promised > segment.At(n, 0) {
			return false, fmt.Errorf("%s holds acknowledged frames from byte %d on, but its header and the copy of it are damaged: %w: %w",
				name, first, fault.Corrupt, cause)
		}
	}
	return false, nil
}

// removeAbove removes the segments behind a cut, durably, before anything is written again.
func (s *store) removeAbove(n uint64, numbers []uint64) error {
	for _, other := range slices.Backward(numbers) {
		if other > n {
			if err := s.fs.Remove(path.Join(s.dir, segmentName(other))); err != nil {
				return explain("remove a segment behind the end", err)
			}
		}
	}
	s.segs.forget(0, n)
	if err := s.fs.SyncDir(s.dir); err != nil {
		return explain("sync "+s.fs.Path(s.dir), err)
	}
	return nil
}

func (s *store) readTrim() []int64 {
	none := make([]int64, s.meta.Config.Partitions)
	b, err := readFile(s.fs, path.Join(s.dir, "trim"))
	if errors.Is(err, fs.ErrNotExist) {
		return none
	}
	var firsts []int64
	if err == nil {
		firsts, err = decodeOffsets(b, len(none))
	}
	if err != nil {
		s.log.Error("the trim file is damaged; trimmed records may show up again", "error", err)
		return none
	}
	return firsts
}

// tornRange is a range without sound frames in a segment.
type tornRange struct {
	number uint64
	segment.Damage
}

// scan walks the segments that may hold unsynced bytes, with full checksums and chains.
type scan struct {
	s        *store
	from     uint64
	promised segment.Pos // known to have been on stable storage
	ranges   []tornRange
	end      segment.Pos // behind the last sound frame
}

func (sc *scan) run(low, top uint64) error {
	g, err := sc.s.segs.get(top)
	if err != nil {
		return err
	}
	sc.from = max(low, g.h.Synced.Number())
	sc.s.segs.put(g)
	for n := sc.from; n <= top; n++ {
		if err := sc.one(n, n == top); err != nil {
			return fmt.Errorf("recover segment %d: %w", n, err)
		}
	}
	return nil
}

// one scans a segment. Of a segment that is not the newest, the next one tells the end.
func (sc *scan) one(n uint64, newest bool) error {
	g, err := sc.s.segs.get(n)
	if neverStarted(err) && !newest {
		return nil // see headerFrom
	}
	if err != nil {
		return err
	}
	defer sc.s.segs.put(g)
	end := g.limit
	if !newest {
		switch after, err := sc.s.headerOf(n + 1); {
		case err == nil:
			end = min(end, after.PrevEnd)
		case !neverStarted(err):
			return err
		}
	}
	sc.promised = max(sc.promised, g.h.Synced)
	if e := guard(func() { err = sc.frames(g, end) }); e != nil {
		return e
	}
	return err
}

// frames scans the frames of a segment. Those of a newer program are not ours to cut.
func (sc *scan) frames(g *seg, end int64) error {
	off, chain := g.h.Length, g.h.CRC
	data, epoch := g.data[:end], g.h.Epoch()
	for off < end {
		var f segment.Frame
		err := segment.Check(data, epoch, off, &f)
		if errors.Is(err, segment.ErrVersion) {
			return fmt.Errorf("%s at byte %d: %w: %w", sc.s.fs.Path(path.Join(sc.s.dir, segmentName(g.number))), off, fault.Invalid, err)
		}
		if err == nil && f.Prev != chain && chain != 0 {
			err = errors.New("a frame of another chain")
		}
		if err != nil {
			to := sc.resume(data, epoch, off)
			sc.ranges = append(sc.ranges, tornRange{g.number, segment.Damage{From: off, To: to, Detail: err.Error()}})
			off, chain = to, 0
			continue
		}
		sc.promised = max(sc.promised, f.Synced)
		off += f.Size()
		chain = f.CRC
	}
	sc.end = segment.At(g.number, min(off, end))
	return nil
}

// resume is the next place with a fully sound frame, or the end of data.
func (sc *scan) resume(data []byte, epoch uint64, off int64) int64 {
	var f segment.Frame
	for {
		off = segment.Find(data, epoch, off+segment.Align)
		if off < 0 {
			return int64(len(data))
		}
		if segment.Check(data, epoch, off, &f) == nil {
			return off
		}
	}
}

// cut is where the log ends, and the damage below. What was promised is never cut.
func (sc *scan) cut() (segment.Pos, []tornRange) {
	for i, r := range sc.ranges {
		from := segment.At(r.number, r.From)
		if from >= sc.promised {
			return from, sc.ranges[:i]
		}
		if to := segment.At(r.number, r.To); to >= sc.promised && sc.lastIn(i) {
			// Nothing sound follows: the damage ends where the promise ends.
			r.To = sc.promised.Off()
			return sc.promised, append(sc.ranges[:i:i], r)
		}
	}
	return sc.end, sc.ranges
}

// lastIn tells whether range i is the last thing in the log.
func (sc *scan) lastIn(i int) bool {
	return i == len(sc.ranges)-1 && segment.At(sc.ranges[i].number, sc.ranges[i].To) == sc.end
}
