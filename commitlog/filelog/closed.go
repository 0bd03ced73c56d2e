package filelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sort"
	"sync/atomic"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

// closedPart is what is known of a segment once the next one was started.
type closedPart struct {
	index *segment.Index
	end   int64   // where its frames end
	ends  []int64 // by partition: the next segment's base
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
	name := path.Join(s.dir, indexName(g.number))
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

// find returns the closed segment that holds offset of a partition, with a reference.
func (s *store) find(partition int, offset int64) (*seg, *closedPart, error) {
	if g := s.segs.holding(partition, offset); g != nil {
		return g, g.closed.Load(), nil
	}
	low, top := s.page.low(), s.page.written().Number()
	var failed error
	n := sort.Search(int(top-low), func(i int) bool {
		h, err := s.headerFrom(low + uint64(i) + 1)
		if err != nil {
			failed = err
			return true
		}
		return h.Bases[partition] > offset
	})
	if failed != nil {
		return nil, nil, failed
	}
	g, err := s.segs.get(low + uint64(n))
	if err != nil {
		return nil, nil, err
	}
	c, err := s.closed(g)
	if err != nil {
		s.segs.put(g)
		return nil, nil, err
	}
	return g, c, nil
}

// headerFrom is the header of segment n. When n has none, because a sync error hit it before it
// held anything that was promised, it is that of the first one behind it.
func (s *store) headerFrom(n uint64) (*segment.Header, error) {
	for ; ; n++ {
		h, err := s.headerOf(n)
		if err == nil || n >= s.page.written().Number() || !neverStarted(err) {
			return h, err
		}
	}
}

// neverStarted tells whether a segment has no header of its own: none, or that of an earlier life.
func neverStarted(err error) bool {
	return errors.Is(err, segment.ErrHeader) || errors.Is(err, fault.NotFound)
}

// headerOf reads a header without opening all of the segment.
func (s *store) headerOf(n uint64) (*segment.Header, error) {
	f, err := s.fs.OpenFile(path.Join(s.dir, segmentName(n)), os.O_RDONLY, 0)
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
		if c := g.closed.Load(); c != nil && g.h.Bases[partition] <= offset && offset < c.ends[partition] {
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
		low := s.page.low()
		if c := s.lowCache.p.Load(); c != nil && c.number == low {
			return c.bases, nil
		}
		h, err := s.headerFrom(low)
		if err != nil {
			if s.page.low() != low {
				continue // retention was faster
			}
			return nil, fmt.Errorf("topic %q: the oldest segment: %w: %w", s.name, kindOf(err), err)
		}
		s.lowCache.p.Store(&numbered{number: low, bases: h.Bases})
	}
}

// bounds are the first and the next offset of a partition that readers may see.
func (s *store) bounds(partition int) (first, next int64, sealed bool, err error) {
	low, err := s.lowBases()
	if err != nil {
		return 0, 0, false, err
	}
	v := &s.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.advance(); err != nil {
		return 0, 0, false, fmt.Errorf("topic %q: %w: %w", s.name, kindOf(err), err)
	}
	next = v.parts[partition].next
	return min(max(low[partition], s.page.first(partition)), next), next, v.sealed, nil
}
