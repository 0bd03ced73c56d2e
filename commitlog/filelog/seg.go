package filelog

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Readers read the mapping of a segment without a lock. That is sound by two rules. A mapping
// stays while there is a reference to it: take and put count them under segs.mu, and a segment that was
// forgotten or is one too many is unmapped when it has none. And the file may get another life under the
// mapping, as retention hands it on as a later segment: readers verify what they have copied, and ask
// recycled when that is not sound. A header stands twice in the file, first and at its end, so that one
// damaged block does not make a segment look as if it was never started.
//
// A descriptor is worth more the longer it is open: seg.hears says from where on it can prove a sync
// (rewrite.go).

// Unused segments stay mapped: a reader that comes back to one has its pages at
// hand. fewSegments may always stay; more of them up to maxOpenSegments, as long as their indexes
// take no more memory than indexBytes, and indexBytesEach for each partition besides.
const (
	fewSegments     = 8
	maxOpenSegments = 32
	indexBytes      = 4 << 20
	indexBytesEach  = 512 << 10
)

func segmentName(n uint64) string { return fmt.Sprintf("%016d.seg", n) }
func indexName(n uint64) string   { return fmt.Sprintf("%016d.idx", n) }

// seg is an open segment file. Its mapping stays valid while a reference is held.
type seg struct {
	number uint64
	h      *segment.Header
	f      vfs.File
	m      vfs.Mapping
	data   []byte                     // the whole file, mapped
	limit  int64                      // where the room for frames ends
	closed atomic.Pointer[closedPart] // once the next segment was started

	syncing sync.Mutex  // held across an fdatasync
	failed  error       // of the fdatasync before; guarded by syncing, as the next two
	errors  int         // how many failed
	hears   segment.Pos // bytes from here on were written while the file was open: see rewrite.go

	refs int // guarded by segs.mu
	used uint64
}

// recycled tells whether the file got another life since it was opened. One of the two headers
// may be damaged.
func (g *seg) recycled() bool {
	return !g.names(g.data) && !g.names(g.data[g.limit:])
}

func (g *seg) names(b []byte) bool {
	if len(b) < segment.Block {
		return false
	}
	crc, number := segment.Identity(b)
	return crc == g.h.CRC && number == g.number
}

func (g *seg) close() error { return errors.Join(g.m.Close(), g.f.Close()) }

// openSegment opens segment n of a topic. fault.NotFound when the file is not there or was not
// started yet; fault.Corrupt when its header is damaged.
func openSegment(dir vfs.Dir, topicID, n uint64, partitions int) (*seg, error) {
	name := segmentName(n)
	f, err := dir.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	g, err := mapSegment(dir, f, topicID, n, partitions)
	if err != nil {
		f.Close()
		return nil, err
	}
	return g, nil
}

// mapSegment is openSegment with a file that is open.
func mapSegment(dir vfs.Dir, f vfs.File, topicID, n uint64, partitions int) (*seg, error) {
	where := dir.Path(segmentName(n))
	h, size, err := readHeader(f, topicID, n)
	if err == nil && len(h.Bases) != partitions {
		err = fmt.Errorf("%d partitions, the topic has %d: %w", len(h.Bases), partitions, segment.ErrHeader)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	m, err := f.Map(size, false)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", where, err)
	}
	return &seg{number: n, h: h, f: f, m: m, data: m.Bytes(), limit: h.Limit(size)}, nil
}

// readHeader reads the header of segment n, or the copy of it, and the size of its file.
// fault.NotFound when there is a sound header, but of another segment: an earlier life of a file
// that was not started as n yet. segment.ErrHeader when there is none.
func readHeader(f vfs.File, topicID, n uint64) (*segment.Header, int64, error) {
	size, err := f.Size()
	if err != nil {
		return nil, 0, err
	}
	if size < segment.Block {
		return nil, size, fmt.Errorf("a segment of %d bytes: %w", size, segment.ErrHeader)
	}
	ours := func(h *segment.Header) bool { return h.TopicID == topicID && h.Number == n }
	h, err := readFirstHeader(f, size)
	if err == nil && ours(h) || err != nil && !errors.Is(err, segment.ErrHeader) && !errors.Is(err, errUnreadable) {
		return h, size, err
	}
	tail := make([]byte, min(size-segment.Block, segment.MaxHeader)) // without what could not be read
	if _, e := f.ReadAt(tail, size-int64(len(tail))); e != nil {
		return nil, size, unreadable(e)
	}
	if h, e := segment.FindCopy(tail); e == nil && ours(h) {
		return h, size, nil
	}
	if err == nil {
		err = fmt.Errorf("the header is that of segment %d of topic %x: %w", h.Number, h.TopicID, fault.NotFound)
	}
	return nil, size, err
}

func readFirstHeader(f vfs.File, size int64) (*segment.Header, error) {
	b := make([]byte, segment.Block)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, unreadable(err)
	}
	n, err := segment.HeaderLength(b)
	if err != nil {
		return nil, err
	}
	if n > size {
		return nil, fmt.Errorf("a header of %d bytes in a file of %d: %w", n, size, segment.ErrHeader)
	}
	if n > segment.Block {
		b = make([]byte, n)
		if _, err := f.ReadAt(b, 0); err != nil {
			return nil, unreadable(err)
		}
	}
	return segment.ParseHeader(b)
}

// errUnreadable says that the disk does not give bytes of a header.
var errUnreadable = errors.New("the disk does not give them")

// unreadable is the error of a read; only an error of the disk is errUnreadable.
func unreadable(err error) error {
	if errors.Is(err, syscall.EIO) {
		return fmt.Errorf("read the header: %w: %w", errUnreadable, err)
	}
	return err
}

// segs are the open segments of one topic. mu guards the map and the counts.
type segs struct {
	dir        vfs.Dir
	topicID    uint64
	partitions int
	reach      func(n uint64) segment.Pos // page.Reach

	mu   sync.Mutex
	open map[uint64]*seg
	tick uint64
	grew bool // segments were opened since the last look for surplus ones
}

// get opens segment n or finds it open; the caller must put it back.
func (s *segs) get(n uint64) (*seg, error) {
	if g := s.take(n, nil); g != nil {
		return g, nil
	}
	g, err := openSegment(s.dir, s.topicID, n, s.partitions)
	if err != nil {
		return nil, err
	}
	g.hears = s.reach(n)
	return s.keep(g)
}

// made is get of a segment whose maker has had f open since before the first byte was written. It has f
// from now on, or has closed it.
func (s *segs) made(n uint64, f vfs.File) (*seg, error) {
	g, err := mapSegment(s.dir, f, s.topicID, n, s.partitions)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	g.hears = segment.At(n, 0)
	return s.keep(g)
}

// keep is g with a reference, or else the one that was opened meanwhile.
func (s *segs) keep(g *seg) (*seg, error) {
	if won := s.take(g.number, g); won != g {
		return won, g.close()
	}
	return g, nil
}

// take adds a reference to the open segment n, or to fresh when none is open.
func (s *segs) take(n uint64, fresh *seg) *seg {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.open[n]
	if g == nil {
		if g = fresh; g == nil {
			return nil
		}
		s.open[n] = g
		s.grew = true
	}
	s.tick++
	g.used = s.tick
	g.refs++
	return g
}

// put gives a reference back and closes the segment that was unused the longest when there are many.
func (s *segs) put(g *seg) {
	var drop *seg
	s.mu.Lock()
	g.refs--
	switch {
	case g.refs == 0 && s.open[g.number] != g: // forgotten while it was in use
		drop = g
	case s.grew:
		if drop = s.surplus(); drop != nil {
			delete(s.open, drop.number)
		}
	}
	s.mu.Unlock()
	if drop != nil {
		drop.close()
	}
}

// surplus is the segment that was unused the longest, when too many are open. The caller holds mu.
func (s *segs) surplus() *seg {
	bytes := 0
	var oldest *seg
	for _, g := range s.open {
		if c := g.closed.Load(); c != nil {
			bytes += c.index.Bytes()
		}
		if g.refs == 0 && (oldest == nil || g.used < oldest.used) {
			oldest = g
		}
	}
	if len(s.open) <= fewSegments || len(s.open) <= maxOpenSegments && bytes <= indexBytes+s.partitions*indexBytesEach {
		s.grew = false
		return nil
	}
	return oldest
}

// forget drops the cached segments below low and above high: they were removed.
func (s *segs) forget(low, high uint64) {
	var drop []*seg
	s.mu.Lock()
	for number, g := range s.open {
		if number < low || number > high {
			delete(s.open, number)
			if g.refs == 0 {
				drop = append(drop, g)
			}
		}
	}
	s.mu.Unlock()
	for _, g := range drop {
		g.close()
	}
}

// close closes all; none may be used any more.
func (s *segs) close() error {
	s.mu.Lock()
	open := s.open
	s.open = map[uint64]*seg{}
	s.mu.Unlock()
	var errs []error
	for _, g := range open {
		errs = append(errs, g.close())
	}
	return errors.Join(errs...)
}
