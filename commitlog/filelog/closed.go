package filelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

// Where an offset is, in a segment that is full, takes two searches: for the segment, by the bases
// in the headers, each of which says for every partition where its segment begins; and for the frame,
// in the segment's index. The index file is a copy of what the frames say. It is never synced, and
// made by the process that finds it missing or damaged.
//
// A segment that is gone, or has no header, is not in the way of its neighbours: the next header
// tells where the offsets go on, and an offset in between is an error that names the lost one.

// closedPart is what is known of a segment once the next one was started.
type closedPart struct {
	index *segment.Index
	end   int64   // where its frames end
	ends  []int64 // by partition: the base of the next segment that has a header
	held  []int64 // by partition: behind what this segment held; less than ends when others are lost
}

// closed returns the index of a segment that is not the newest: from memory, from its file, or
// rebuilt from the frames.
func (s *store) closed(g *seg) (*closedPart, error) {
	if c := g.closed.Load(); c != nil {
		return c, nil
	}
	after, err := s.headerFrom(g.number + 1)
	if err != nil {
		return nil, err
	}
	c := &closedPart{end: g.limit, ends: after.Bases}
	if after.Number == g.number+1 {
		c.end = min(after.PrevEnd, g.limit)
	}
	name := indexName(g.number)
	if b, err := readFile(s.fs, name); err == nil {
		c.index, err = segment.ParseIndex(b, g.h, c.end)
		if err != nil {
			s.log.Warn("rebuilding an index file", "file", s.fs.Path(name), "error", err)
		}
	}
	if c.index == nil {
		if c.index, err = s.buildIndex(g, c, name); err != nil {
			return nil, err
		}
	}
	c.held = c.ends
	if after.Number != g.number+1 {
		c.held = c.own(g)
	}
	g.closed.Store(c)
	return c, nil
}

// buildIndex makes the index of a closed segment and stores it for the next time. Two processes
// may do so at once; they write the same.
func (s *store) buildIndex(g *seg, c *closedPart, name string) (*segment.Index, error) {
	var b []byte
	if err := guard(func() { b = segment.BuildIndex(g.data[:c.end], g.h, c.ends) }); err != nil {
		return nil, err
	}
	tmp := fmt.Sprintf("%s.%d.tmp", name, os.Getpid())
	err := writeUnsynced(s.fs, tmp, b)
	if err == nil {
		err = s.fs.Rename(tmp, name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = s.fs.Remove(tmp) // on a full disk it would take room for nothing
		s.log.Warn("an index file could not be stored", "file", s.fs.Path(name), "error", err)
	}
	return segment.ParseIndex(b, g.h, c.end)
}

// find returns the closed segment that holds offset of a partition, with a reference. When the
// segment that held it is gone or has no header, the error names that one, not its neighbours.
func (s *store) find(partition int, offset int64) (*seg, *closedPart, error) {
	if g := s.segs.holding(partition, offset); g != nil {
		return g, g.closed.Load(), nil
	}
	low, top := s.page.Low(), s.page.Written().Number()
	var failed error
	n := low + uint64(sort.Search(int(top-low), func(i int) bool {
		h, err := s.headerFrom(low + uint64(i) + 1)
		if err != nil {
			failed = err
			return true
		}
		return h.Bases[partition] > offset
	}))
	if failed != nil {
		return nil, nil, failed
	}
	after, err := s.headerFrom(n + 1)
	if err != nil {
		return nil, nil, err
	}
	g, err := s.segs.get(n)
	if lostHeader(err) {
		return nil, nil, s.lost(n, partition, offset, after, err)
	}
	if err != nil {
		return nil, nil, err
	}
	c, err := s.closed(g)
	if err == nil && after.Number > n+1 && offset >= c.held[partition] {
		_, err = s.headerOf(n + 1)
		err = s.lost(n+1, partition, offset, after, err)
	}
	if err != nil {
		s.segs.put(g)
		return nil, nil, err
	}
	return g, c, nil
}

// own are the offsets behind the last frames of each partition in a segment, as those say.
func (c *closedPart) own(g *seg) []int64 {
	own := slices.Clone(g.h.Bases)
	for p := range own {
		n := c.index.Len(p)
		if n == 0 {
			continue
		}
		var f segment.Frame
		last := c.index.At(p, n-1)
		err := segment.ErrEnd
		if e := guard(func() { err = segment.Peek(g.data, g.h.Epoch(), last.Off, &f) }); e != nil || err != nil {
			own[p] = c.ends[p]
		} else {
			own[p] = f.Next()
		}
	}
	return own
}

// lost is the error of an offset whose segment n is gone or has no header. after is the header of
// the next segment that has one.
func (s *store) lost(n uint64, partition int, offset int64, after *segment.Header, why error) error {
	if !lostHeader(why) || after.Bases[partition] <= offset {
		// Another look will find more: a file could not be opened, or could a moment ago.
		return fmt.Errorf("segment %d can't be looked at now: %w", n, errors.Join(fault.Unavailable, why))
	}
	detail := "the segment is lost: " + why.Error()
	if errors.Is(why, fs.ErrNotExist) {
		detail = "the segment is missing"
	}
	s.reportDamage(n, &segment.Damage{To: segment.Block, Detail: detail})
	return &driver.CorruptError{
		Topic: s.name, Partition: partition, Offset: offset, Resume: after.Bases[partition],
		File: s.fs.Path(segmentName(n)), Detail: detail,
	}
}

// headerFrom is the header of segment n or, when that is gone or has none, of the first one behind
// it that has: its bases are where n ends at the latest.
func (s *store) headerFrom(n uint64) (*segment.Header, error) {
	for m := n; ; m++ {
		h, err := s.headers.get(m, func() (*segment.Header, error) { return s.headerOf(m) })
		if err == nil || m >= s.page.Written().Number() || !lostHeader(err) || m < s.page.Low() {
			return h, err
		}
	}
}

// lostHeader tells whether a segment is gone, or its header can't be read from the disk. To its
// neighbours that is the same. That its file can't be opened now says nothing of the kind.
func lostHeader(err error) bool {
	return neverStarted(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errUnreadable)
}

// neverStarted tells whether a segment has no header of its own: none, or that of an earlier life.
func neverStarted(err error) bool {
	return errors.Is(err, segment.ErrHeader) || errors.Is(err, fault.NotFound)
}

// headerOf reads a header without opening all of the segment.
func (s *store) headerOf(n uint64) (*segment.Header, error) {
	f, err := s.fs.OpenFile(segmentName(n), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, _, err := readHeader(f, s.meta.ID, n)
	return h, err
}

// holding is an open closed segment that holds the offset, with a reference; nil when none does.
func (s *segs) holding(partition int, offset int64) *seg {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.open {
		if c := g.closed.Load(); c != nil && g.h.Bases[partition] <= offset && offset < c.held[partition] {
			s.tick++
			g.used = s.tick
			g.refs++
			return g
		}
	}
	return nil
}

// lowCache remembers the bases of the oldest segment.
type lowCache struct{ p atomic.Pointer[numbered] }

type numbered struct {
	number uint64
	bases  []int64
}

// bases are the lowest offsets that are physically there.
func (s *store) lowBases() ([]int64, error) {
	for {
		low := s.page.Low()
		if c := s.lowCache.p.Load(); c != nil && c.number == low {
			return c.bases, nil
		}
		h, err := s.headerFrom(low)
		if err != nil {
			if s.page.Low() != low {
				continue // retention was faster
			}
			return nil, fmt.Errorf("topic %q: the oldest segment: %w: %w", s.name, kindOf(err), err)
		}
		bases := h.Bases
		if h.Number > low { // of the oldest segment the header is lost: readers are told, not sent past it
			bases = make([]int64, len(bases))
		}
		s.lowCache.p.Store(&numbered{number: low, bases: bases})
	}
}

// bounds are the first and the next offset of a partition that readers may see.
func (s *store) bounds(partition int) (first, next int64, sealed bool, err error) {
	low, err := s.lowBases()
	if err != nil {
		return 0, 0, false, err
	}
	next, sealed, err = s.view.end(partition)
	if err != nil {
		return 0, 0, false, err
	}
	return min(max(low[partition], s.page.First(partition)), next), next, sealed, nil
}

// end is the next offset of a partition. Where damage leaves that open it is decided first.
func (v *view) end(partition int) (int64, bool, error) {
	for try := 0; ; try++ {
		v.mu.Lock()
		err := v.advance()
		p, sealed := v.parts[partition], v.sealed
		n := uint64(0)
		if v.seg != nil {
			n = v.seg.number
		}
		v.mu.Unlock()
		switch {
		case err != nil:
			return 0, false, fmt.Errorf("topic %q: %w: %w", v.s.name, kindOf(err), err)
		case !p.doubt || try == 2:
			return p.next, sealed, nil
		}
		if err := v.s.decide(n, partition, p.next); err != nil {
			return 0, false, err
		}
	}
}
