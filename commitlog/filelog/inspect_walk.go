package filelog

import (
	"fmt"

	"github.com/ringfence/ringfence/internal/segment"
)

// segmentWalk checks every frame and record of one segment.
type segmentWalk struct {
	in   *inspector
	h    *segment.Header
	file string
	data []byte
	r    SegmentReport

	claims segment.Pos      // the highest position that a sound frame calls synced
	copies []segment.Damage // of the two copies of the header
	tail   *segment.Damage  // behind the last sound frame, where nothing says that there was more
}

// headers checks the header and the copy of it that stands at limit: one of them is enough to read
// the segment, so a damaged one is named before the other is needed.
func (w *segmentWalk) headers(limit int64) {
	for _, at := range []struct {
		off  int64
		name string
	}{{0, "the header"}, {limit, "the copy of the header"}} {
		b := w.data[min(at.off, int64(len(w.data))):]
		h, err := segment.ParseHeader(b[:min(w.h.Length, int64(len(b)))])
		if err == nil && h.CRC == w.h.CRC && h.Number == w.h.Number {
			continue
		}
		w.copies = append(w.copies, segment.Damage{From: at.off, To: at.off + w.h.Length, Detail: at.name + " is damaged; the segment is read by the other one"})
	}
}

// run walks to end. When that is only a bound, what follows the last sound frame is no damage, as far
// as can be told here.
func (w *segmentWalk) run(end int64, known bool) error {
	walk := segment.Walker{Data: w.data, Epoch: w.h.Epoch(), Off: w.h.Length}
	for {
		var f segment.Frame
		off, bad, err := walk.Next(end, &f)
		switch {
		case err != nil:
			return nil //nolint:nilerr // the end of the data
		case bad != nil && bad.To >= end && !known:
			w.tail = bad
			return nil
		case bad != nil:
			w.in.damage(w.file, bad)
		default:
			if err := w.frame(&f, off); err != nil {
				return err
			}
		}
	}
}

func (w *segmentWalk) frame(f *segment.Frame, off int64) error {
	w.r.Frames++
	w.r.Records += int64(f.Count)
	w.r.End = off + f.Size()
	b := w.data[off : off+int64(f.Length)]
	if !segment.Sum(b, w.h.Epoch(), off) {
		w.in.damage(w.file, &segment.Damage{From: off, To: w.r.End, Detail: fmt.Sprintf(
			"checksum mismatch in partition %d offsets %d to %d", f.Partition, f.Base, f.Next()-1)})
		w.follow(f, off)
		return nil
	}
	w.follow(f, off)
	w.claims = max(w.claims, f.Synced)
	info := FrameInfo{Topic: w.in.meta.Config.Name, File: w.file, Position: off, Frame: *f}
	if w.in.o.Frame != nil {
		if err := w.in.o.Frame(info); err != nil {
			return err
		}
	}
	return w.records(info, b)
}

func (w *segmentWalk) records(info FrameInfo, b []byte) error {
	var err error
	opts := segment.RecordsOptions{Budget: int(^uint(0) >> 1)}
	w.in.recs, _, err = segment.Decode(b, &info.Frame, opts, w.in.recs[:0])
	if err != nil {
		w.in.damage(w.file, &segment.Damage{From: info.Position, To: info.Position + info.Frame.Size(), Detail: err.Error()})
		return nil //nolint:nilerr // it was reported as damage
	}
	if w.in.o.Record == nil {
		return nil
	}
	for i := range w.in.recs {
		if err := w.in.o.Record(info, &w.in.recs[i]); err != nil {
			return err
		}
	}
	return nil
}

// follow checks that offsets go on where the frame before of the partition ended.
func (w *segmentWalk) follow(f *segment.Frame, off int64) {
	next := w.in.report.Next
	switch {
	case f.Kind == segment.Seal:
		w.in.report.Sealed = true
	case f.Partition >= len(next):
		w.in.damage(w.file, &segment.Damage{From: off, To: off + f.Size(), Detail: fmt.Sprintf("a frame of partition %d; the topic has %d", f.Partition, len(next))})
	default:
		if f.Base != next[f.Partition] {
			w.in.damage(w.file, &segment.Damage{From: off, To: off, Detail: fmt.Sprintf("partition %d: offsets %d to %d are missing", f.Partition, next[f.Partition], f.Base-1)})
		}
		next[f.Partition] = f.Next()
	}
}
