package filelog

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

// runFrames bounds the frames that one Read looks at.
const runFrames = 512

// run is a number of frames of one partition that stand in one segment, in order.
type run struct {
	g      *seg
	n      int
	places [runFrames]segment.Entry
	after  int64 // where the offsets go on behind the run
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
	return fmt.Errorf("topic %q partition %d offset %d: %w: %w", s.name, req.Partition, req.Offset, kindOf(err), err)
}

// kindOf tells a segment that is damaged or gone from one that can't be read now.
func kindOf(err error) error {
	if errors.Is(err, segment.ErrHeader) || errors.Is(err, segment.ErrVersion) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fault.NotFound) {
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
	r.g, r.after = g, c.ends[req.Partition]
	i, count, sum := max(c.index.Search(req.Partition, req.Offset), 0), c.index.Len(req.Partition), 0
	for ; i < count; i++ {
		if r.n == runFrames || sum >= req.MaxBytes {
			r.after = c.index.At(req.Partition, i).Base
			break
		}
		r.places[r.n] = c.index.At(req.Partition, i)
		sum += s.peekLength(g, r.places[r.n].Off)
		r.n++
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
	sum := 0
	for i := max(p.frames.search(req.Offset-p.base), 0); i < p.frames.n; i++ {
		e := p.frames.at(i)
		if r.n == runFrames || sum >= req.MaxBytes {
			r.after = p.base + int64(e.rel)
			break
		}
		r.places[r.n] = segment.Entry{Base: p.base + int64(e.rel), Off: int64(e.off)}
		sum += v.s.peekLength(v.seg, int64(e.off))
		r.n++
	}
	return true, nil
}

func (s *store) peekLength(g *seg, off int64) int {
	return max(segment.Raw(g.data, off), segment.FrameHeader)
}

// copyOut copies the frames of a run into memory of the caller's, verifies the copies and decodes
// them. It stops in front of damage, and reports damage that stands at the very offset.
func (s *store) copyOut(r *run, req *driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	want, have := req.Offset, len(dst)
	opts := segment.RecordsOptions{From: req.Offset, Budget: req.MaxBytes}
	buf := s.bufferFor(r, req.Buf)
	epoch := r.g.h.Epoch()
	for i := range r.n {
		at := r.places[i]
		if at.Base > want {
			return s.stopAt(r, req, i-1, dst, have, want, "frames are missing here")
		}
		n := segment.Raw(r.g.data, at.Off)
		if n > cap(buf)-len(buf) { // the file changed under us, or is damaged
			return s.stopAt(r, req, i, dst, have, want, "a damaged frame length")
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
		return s.stopAt(r, req, r.n-1, dst, have, want, "frames are missing here")
	}
	return dst, want, nil
}

// bufferFor is room for all frames of a run.
func (s *store) bufferFor(r *run, given []byte) []byte {
	total := 0
	for i := range r.n {
		total += segment.Raw(r.g.data, r.places[i].Off)
	}
	if cap(given) >= total {
		return given[:0]
	}
	return make([]byte, 0, total)
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
		File: s.fs.Path(s.dir) + "/" + segmentName(r.g.number), Position: r.g.h.Length, Detail: detail,
	}
	if i >= 0 && i < r.n {
		e.Position = r.places[i].Off
	}
	for j := range r.n {
		if r.places[j].Base > req.Offset {
			e.Resume = r.places[j].Base
			break
		}
	}
	s.reportDamage(r.g.number, &segment.Damage{From: e.Position, To: e.Position, Detail: detail})
	return e
}

// guard runs f, which reads mapped files, and turns an I/O error on a mapping into an error.
func guard(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if fault, ok := p.(interface{ Addr() uintptr }); ok {
				if e, ok := p.(runtime.Error); ok {
					err = fmt.Errorf("an I/O error while reading the mapped file (address %x): %w", fault.Addr(), e)
					return
				}
			}
			panic(p)
		}
	}()
	f()
	return nil
}
