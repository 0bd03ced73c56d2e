package filelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

// What recovery sees before it decides (plan.go). It walks the frames of the last segments only: what stands
// in front of ev.from was durable when a later segment was started, or by the page's hint. Two things are not
// plain about a walk.
//
// Where the frames of a segment end stands in the header of the next one, so the newest segment is walked
// first, and without a next one the room for frames is the end. But a header alone proves no start: a writer
// may have been killed over it, and others may have gone on in the segment before. It counts when the log
// went on from it (counts), and only then it is believed about the segment before (closing).
//
// How much is verified depends on what was promised. Below the hint frames are part of the log, and are
// walked by their headers: what is damaged there is damage. At or above it every checksum is computed and
// each frame has to name the one before, as frames that an earlier writer left behind the end are no part of
// the log.

// evidence is all that recovery decides by: what the disk holds, and what is known to have been
// promised.
type evidence struct {
	partitions int
	dropped    []uint64 // segment files in front of the oldest one that is kept
	numbers    []uint64 // of the segment files that are kept
	// oldest is the segment that the log begins with, whether it is there or not; 0: not known.
	oldest uint64
	// from is the first segment that was walked. All before it was durable when a later one was
	// started, or by the page's hint; what is damaged there, its readers are told.
	from  uint64
	found map[uint64]*found
	// hint is a position that was synced once, by the page of an earlier life or by what was dropped
	// in front of it; 0: not known.
	hint segment.Pos
	trim []int64
}

// found is what a walk found in one segment file.
type found struct {
	header *segment.Header // nil: see why
	why    string
	limit  int64 // where the room for frames ends
	closed bool  // the next segment says where the frames end
	began  bool  // the first frame stands behind the header, and names it
	gaps   []gap
	end    int64 // behind the last sound frame
	beyond int64 // behind the last frame that an error left behind the end; 0: none, or nothing is torn
	frames int
	after  tally       // behind the last sound frame
	claims segment.Pos // the highest position that a sound frame or the header calls synced
}

// gap is a range without a sound frame, and what was known in front of it.
type gap struct {
	segment.Damage
	before tally
}

// examine walks the frames of a segment up to end. Below the hint their headers and chain are
// verified; what was not known to be synced in full.
func examine(h *segment.Header, data []byte, end int64, closed bool, hint segment.Pos) (*found, error) {
	f := &found{header: h, limit: end, closed: closed, end: h.Length, after: newTally(h.Bases), claims: h.Synced}
	walk := segment.Walker{Data: data, Epoch: h.Epoch(), Off: h.Length, Chain: h.CRC}
	for {
		var fr segment.Frame
		walk.Full = segment.At(h.Number, walk.Off) >= hint
		off, bad, err := walk.Next(end, &fr)
		if off == h.Length && err == nil {
			f.began = bad == nil || bad.Named
		}
		switch {
		case errors.Is(err, fault.Newer):
			return nil, fmt.Errorf("at byte %d: %w", off, err)
		case err != nil:
			f.dropTail()
			if len(f.gaps) > 0 {
				f.beyond = lastFrame(data[:h.Limit(int64(len(data)))], walk.Epoch, end)
			}
			return f, nil
		case bad != nil:
			f.gaps = append(f.gaps, gap{*bad, f.after.copy()})
			f.after.lost(bad, &fr)
		default:
			f.after.saw(&fr)
			f.claims = max(f.claims, fr.Synced)
			f.end = walk.Off
			f.frames++
		}
	}
}

// dropTail takes back what is no damage: that nothing more stands behind the last frame of a
// segment whose end is not known.
func (f *found) dropTail() {
	n := len(f.gaps)
	if !f.closed && n > 0 && f.gaps[n-1].To == f.limit && !f.gaps[n-1].Named {
		f.after = f.gaps[n-1].before
		f.gaps = f.gaps[:n-1]
	}
}

// lastFrame is the end of the last frame at or behind from that has a sound header; 0: there is none.
func lastFrame(data []byte, epoch uint64, from int64) (end int64) {
	var f segment.Frame
	for at := segment.Find(data, epoch, from); at >= 0; at = segment.Find(data, epoch, at+segment.Align) {
		if segment.Peek(data, epoch, at, &f) == nil {
			end = max(end, at+f.Size())
		}
	}
	return min(end, int64(len(data)))
}

// examineBare looks for frames in a segment without a sound header: they tell what it promised,
// and how far it went at least.
func examineBare(topicID, n uint64, data []byte, partitions int, why string) *found {
	f := &found{why: why, limit: int64(len(data)), after: newTally(make([]int64, partitions))}
	epoch := segment.Epoch(topicID, n)
	for at := segment.Find(data, epoch, 0); at >= 0; at = segment.Find(data, epoch, at+segment.Align) {
		var fr segment.Frame
		if segment.Check(data, epoch, at, &fr) == nil {
			f.after.saw(&fr)
			f.claims = max(f.claims, fr.Synced)
			f.frames++
		}
	}
	f.after.lostBytes(f.limit)
	return f
}

// gather reads what recovery decides by.
func (s *store) gather() (*evidence, error) {
	l, err := s.list()
	if err != nil {
		return nil, explain("list "+s.fs.Path("."), err)
	}
	numbers := l.kept()
	ev := &evidence{partitions: s.meta.Config.Partitions, numbers: numbers, dropped: l.dropped(), oldest: l.oldest, found: map[uint64]*found{}}
	ev.hint = max(s.page.Hint(), begun(l.oldest))
	if ev.trim, err = s.readTrim(); err != nil {
		return nil, err
	}
	ev.from, err = walkFrom(numbers, ev.hint, s.headerOf)
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(numbers) {
		if n < ev.from {
			break
		}
		if ev.found[n], err = s.examine(n, ev.closing(n), ev); err != nil {
			return nil, fmt.Errorf("recover %s: %w", s.fs.Path(segmentName(n)), err)
		}
	}
	return ev, nil
}

// walkFrom is the first segment that may hold bytes that were never synced, or whose loss the
// hint tells of, and that has a header. headerOf is fault.NotFound or segment.ErrHeader for one
// that has none.
func walkFrom(numbers []uint64, hint segment.Pos, headerOf func(n uint64) (*segment.Header, error)) (uint64, error) {
	from := uint64(0)
	for _, n := range slices.Backward(numbers) {
		if from != 0 && n > from {
			continue
		}
		h, err := headerOf(n)
		switch {
		case neverStarted(err):
		case err != nil:
			return 0, headerFault(fmt.Errorf("%s: %w", segmentName(n), err))
		case from != 0:
			return n, nil
		default:
			if from = max(h.Synced.Number(), min(hint.Number(), n)); from >= n {
				return n, nil
			}
		}
	}
	if len(numbers) == 0 {
		return 0, nil
	}
	return numbers[0], nil
}

// closing is the header that says where segment n ends; nil when none does. The segments behind n
// were examined.
func (ev *evidence) closing(n uint64) *segment.Header {
	promised := ev.hint
	for _, f := range ev.found {
		promised = max(promised, f.claims)
	}
	if !ev.counts(n+1, promised) {
		return nil
	}
	return ev.found[n+1].header
}

// counts tells whether the header of segment n is that of a start from which the log went on. It may
// also be of a start that was given up: a writer was killed over it, and others went on in segment n-1,
// and may have started n once more, with another header that the power took. What tells them apart: n was
// promised, since a sync covers the header; or its first frame names the header, or the header of the next
// segment does, which counts itself.
func (ev *evidence) counts(n uint64, promised segment.Pos) bool {
	f := ev.found[n]
	if f == nil || f.header == nil {
		return false
	}
	if n <= promised.Number() || f.began {
		return true
	}
	return ev.counts(n+1, promised) && ev.found[n+1].header.PrevCRC == f.header.CRC
}

func headerFault(err error) error {
	if errors.Is(err, fault.Newer) {
		return err
	}
	return fmt.Errorf("%w: %w", fault.Unavailable, err)
}

// examine looks at one segment file. after is the header that says where it ends, if there is one.
func (s *store) examine(n uint64, after *segment.Header, ev *evidence) (f *found, err error) {
	g, err := s.segs.get(n)
	if neverStarted(err) {
		return s.examineBare(n, err.Error())
	}
	if err != nil {
		return nil, headerFault(err)
	}
	defer s.segs.put(g)
	end := g.limit
	if after != nil {
		end = min(end, after.PrevEnd)
	}
	if e := guard(func() { f, err = examine(g.h, g.data, end, after != nil, ev.hint) }); e != nil {
		return nil, headerFault(e)
	}
	return f, err
}

func (s *store) examineBare(n uint64, why string) (f *found, err error) {
	file, err := s.fs.OpenFile(segmentName(n), os.O_RDONLY, 0)
	if err != nil {
		return nil, headerFault(err)
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, headerFault(err)
	}
	if size == 0 {
		return examineBare(s.meta.ID, n, nil, s.meta.Config.Partitions, why), nil
	}
	m, err := file.Map(size, false)
	if err != nil {
		return nil, headerFault(err)
	}
	defer m.Close()
	if e := guard(func() { f = examineBare(s.meta.ID, n, m.Bytes(), s.meta.Config.Partitions, why) }); e != nil {
		return nil, headerFault(e)
	}
	return f, nil
}

// readTrim is what the trim file says. One that is damaged costs the trims; one that can't be read now
// must not, since the next trim replaces the file.
func (s *store) readTrim() ([]int64, error) {
	none := make([]int64, s.meta.Config.Partitions)
	b, err := readFile(s.fs, "trim")
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return nil, explain("read "+s.fs.Path("trim"), err)
	}
	firsts, err := decodeOffsets(b, len(none))
	if err != nil {
		s.log.Error("the trim file is damaged; trimmed records may show up again", "error", err)
		return none, nil
	}
	return firsts, nil
}
