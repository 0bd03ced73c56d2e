package filelog

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/prefetch"
	"github.com/ringfence/ringfence/internal/segment"
)

// A read has three steps. locate finds the frames of the partition from the offset on, in the view of
// the newest segment or in the index of an older one, as many as the caller's budget may need: a run.
// copyOut copies them out of the mapping one by one, verifies each copy, and decodes it into records.
// Where one does not pass, stopAt says whether that is damage, or the file was used again meanwhile.
//
// Only what was copied is believed: a mapped page may change under a reader. A frame of another life of
// the file does not pass, as checksums are seeded with the segment's epoch. While one frame is verified
// the memory of the next ones is on its way (package prefetch).

// runFrames bounds the frames that one Read looks at.
const runFrames = 512

// run is a number of frames of one partition that stand in one segment, in order.
type run struct {
	g       *seg
	n       int
	entries [runFrames]entry
	total   int   // bytes of all the frames
	after   int64 // where the offsets go on behind the run
}

// entry is where a frame stands, and the length it claims.
type entry struct {
	segment.Entry
	length int
}

// How many frames ahead the memory of a frame's header, and of all of it, is asked for.
const (
	headersAhead = 8
	framesAhead  = 2
)

// add appends a frame whose offsets begin at base; false when the run is long enough for a read
// of so many bytes without it.
func (r *run) add(base, off int64, budget int) bool {
	if r.n == runFrames || r.total >= budget {
		r.after = base
		return false
	}
	p := &r.entries[r.n]
	p.Base, p.Off = base, off
	p.length = max(segment.Raw(r.g.data, off), segment.FrameHeader)
	r.total += p.length
	r.n++
	return true
}

// expect asks for the header of the frame at off, which add will look at soon.
func (r *run) expect(off int64) {
	if off < int64(len(r.g.data)) {
		prefetch.Bytes(r.g.data[off:][:1])
	}
}

// expectFrame asks for all of frame i of the run.
func (r *run) expectFrame(i int) {
	if i >= r.n {
		return
	}
	p := &r.entries[i]
	if end := p.Off + int64(p.length); end <= int64(len(r.g.data)) {
		prefetch.Bytes(r.g.data[p.Off:end])
	}
}

// read is Topic.Read.
func (s *store) read(req *driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	first, next, _, err := s.bounds(req.Partition)
	if err != nil {
		return dst, req.Offset, err
	}
	if req.Offset < first || req.Offset > next {
		return dst, req.Offset, &driver.OutOfRangeError{Topic: s.name, Partition: req.Partition, Offset: req.Offset, First: first, End: next}
	}
	if req.Offset == next {
		return dst, next, nil
	}
	var r run
	if e := guard(func() { err = s.locate(&r, req) }); e != nil {
		err = e
	}
	if err != nil {
		return dst, req.Offset, s.readError(req, err)
	}
	defer s.segs.put(r.g)
	var next2 int64
	before := len(dst)
	fault := guard(func() { dst, next2, err = s.copyOut(&r, req, dst) })
	if fault != nil {
		dst, next2, err = dst[:before], req.Offset, s.corrupt(&r, req, 0, fault.Error())
	}
	return dst, next2, err
}

// readError explains why a segment could not be opened: retention may have been faster.
func (s *store) readError(req *driver.ReadRequest, err error) error {
	if first, next, _, e := s.bounds(req.Partition); e == nil && req.Offset < first {
		return &driver.OutOfRangeError{Topic: s.name, Partition: req.Partition, Offset: req.Offset, First: first, End: next}
	}
	var damage *driver.CorruptError
	if errors.As(err, &damage) {
		return err
	}
	return fmt.Errorf("topic %q partition %d offset %d: %w: %w", s.name, req.Partition, req.Offset, kindOf(err), err)
}

// kindOf tells a segment that is damaged or gone, or of a newer program, from one that can't be
// read now.
func kindOf(err error) error {
	if errors.Is(err, fault.Newer) {
		return fault.Invalid
	}
	if errors.Is(err, segment.ErrHeader) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fault.NotFound) {
		return fault.Corrupt
	}
	return fault.Unavailable
}

// locate fills r with the frames from the offset on, as many as the byte budget may need.
func (s *store) locate(r *run, req *driver.ReadRequest) error {
	if ok, err := s.view.locate(r, req); ok || err != nil {
		return err
	}
	g, c, err := s.find(req.Partition, req.Offset)
	if err != nil {
		return err
	}
	r.g, r.after = g, c.held[req.Partition]
	count := c.index.Len(req.Partition)
	for i := max(c.index.Search(req.Partition, req.Offset), 0); i < count; i++ {
		if i+headersAhead < count {
			r.expect(c.index.At(req.Partition, i+headersAhead).Off)
		}
		if e := c.index.At(req.Partition, i); !r.add(e.Base, e.Off, req.MaxBytes) {
			break
		}
	}
	return nil
}

// locate is store.locate for the newest segment; false when the offset is in an older one.
func (v *view) locate(r *run, req *driver.ReadRequest) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.advance(); err != nil {
		return false, err
	}
	p := &v.parts[req.Partition]
	if req.Offset < p.base {
		return false, nil
	}
	r.g = v.s.segs.take(v.seg.number, v.seg)
	r.after = p.next
	for i := max(p.frames.search(req.Offset-p.base), 0); i < p.frames.n; i++ {
		if i+headersAhead < p.frames.n {
			r.expect(int64(p.frames.at(i + headersAhead).off))
		}
		if e := p.frames.at(i); !r.add(p.base+int64(e.rel), int64(e.off), req.MaxBytes) {
			break
		}
	}
	return true, nil
}

// copyOut copies the frames of a run into memory of the caller's, verifies the copies and decodes
// them. It stops in front of damage, and reports damage that stands at the very offset. It also
// stops in front of a frame that has no room in the memory that the caller gave, or of which the
// budget allows only a part: the next read would have to verify it again.
func (s *store) copyOut(r *run, req *driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	want, have := req.Offset, len(dst)
	opts := segment.RecordsOptions{From: req.Offset, Budget: req.MaxBytes}
	buf := bufferFor(r, req.Buf)
	epoch, end := r.g.h.Epoch(), int64(len(r.g.data))
	for i := range framesAhead {
		r.expectFrame(i)
	}
	for i := range r.n {
		r.expectFrame(i + framesAhead)
		at := &r.entries[i]
		if at.Base > want {
			return s.stopAt(r, req, i-1, dst, have, want, missing)
		}
		n := at.length
		if at.Off+int64(n) > end {
			return s.stopAt(r, req, i, dst, have, want, "a damaged frame length")
		}
		room := n <= cap(buf)-len(buf)
		if len(dst) > have && (!room || opts.Budget < n/2) {
			return dst, want, nil
		}
		if !room {
			buf = make([]byte, 0, n)
		}
		b := append(buf[len(buf):], r.g.data[at.Off:at.Off+int64(n)]...)
		buf = buf[:len(buf)+n]
		var f segment.Frame
		if !segment.Open(b, epoch, at.Off, &f) || f.Partition != req.Partition || f.Base != at.Base {
			return s.stopAt(r, req, i, dst, have, want, "checksum mismatch")
		}
		if f.Next() <= want {
			continue
		}
		var err error
		if dst, opts.Budget, err = segment.Decode(b, &f, opts, dst); err != nil {
			return s.stopAt(r, req, i, dst, have, want, err.Error())
		}
		want = dst[len(dst)-1].Offset + 1
		if opts.Budget <= 0 {
			return dst, want, nil
		}
	}
	if want < r.after {
		return s.stopAt(r, req, r.n-1, dst, have, want, missing)
	}
	return dst, want, nil
}

// bufferFor is the caller's memory, or else room for all frames of a run.
func bufferFor(r *run, given []byte) []byte {
	if cap(given) > 0 {
		return given[:0]
	}
	return make([]byte, 0, r.total)
}

// stopAt ends a read in front of frame i (or behind it, when frames are missing there): with the
// records before it, and with an error when there are none.
func (s *store) stopAt(r *run, req *driver.ReadRequest, i int, dst []driver.Record, have int, want int64, detail string) ([]driver.Record, int64, error) {
	if len(dst) > have {
		return dst, want, nil
	}
	if r.g.recycled() {
		first, next, _, err := s.bounds(req.Partition)
		if err != nil {
			return dst, req.Offset, err
		}
		return dst, req.Offset, &driver.OutOfRangeError{Topic: s.name, Partition: req.Partition, Offset: req.Offset, First: first, End: next}
	}
	return dst, req.Offset, s.corrupt(r, req, i, detail)
}

// corrupt names damage at or behind frame i of a run.
func (s *store) corrupt(r *run, req *driver.ReadRequest, i int, detail string) error {
	e := &driver.CorruptError{
		Topic: s.name, Partition: req.Partition, Offset: req.Offset, Resume: r.after,
		File: s.fs.Path(".") + "/" + segmentName(r.g.number), Position: r.g.h.Length, Detail: detail,
	}
	if i >= 0 && i < r.n {
		e.Position = r.entries[i].Off
	}
	if at, ok := s.damage.behind(r.g.number, e.Position); ok && detail == missing {
		e.Position = at
	}
	for j := range r.n {
		if r.entries[j].Base > req.Offset {
			e.Resume = r.entries[j].Base
			break
		}
	}
	s.reportDamage(r.g.number, &segment.Damage{From: e.Position, To: e.Position, Detail: detail})
	return e
}

const missing = "frames are missing here"

// guard runs f, which reads mapped files, and turns an I/O error on a mapping into an error.
func guard(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if fault, ok := p.(interface{ Addr() uintptr }); ok {
				if _, ok := p.(runtime.Error); ok {
					err = fmt.Errorf("a page of the mapped file can't be read (address %x): an I/O error, or, on tmpfs, no space is left", fault.Addr())
					return
				}
			}
			panic(p)
		}
	}()
	f()
	return nil
}
