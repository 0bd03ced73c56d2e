package segment

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
)

// Find is the place of the first frame with a sound header at or after from, or -1. It is how a
// scan goes on behind damage.
func Find(data []byte, epoch uint64, from int64) int64 {
	var f Frame
	for off := max(AlignUp(from), 0); off+FrameHeader <= int64(len(data)); off += Align {
		// Mostly there are zeros, tens of megabytes of them.
		i := bytes.IndexByte(data[off+versionByte:], frameVersion)
		if i < 0 {
			return -1
		}
		if off += int64(i) &^ (Align - 1); i%Align == 0 && Peek(data, epoch, off, &f) == nil {
			return off
		}
	}
	return -1
}

// versionByte is where a frame's version stands in its header.
const versionByte = 12

// Damage is a range of a segment that holds no sound frame.
type Damage struct {
	From, To int64
	Detail   string
	// Named: the range is one frame whose header is sound, so that it is known which records are lost.
	Named bool
}

// MostRecords is more than the number of records that n bytes can hold.
func MostRecords(n int64) int64 { return max(n, 0)/minRecord + 1 }

// Walker steps through the frames of a segment, and over damage. It is the one walk: recovery,
// writers that catch up, readers and checks differ in how much they verify only.
//
// By their headers frames are walked below a position that makes all in front of it part of the
// log. Full is for where nothing is sure: every checksum is computed, and a frame must name the one
// before it, so that what an earlier writer left behind the end is not taken for the log.
type Walker struct {
	Data  []byte // the segment from its first byte
	Epoch uint64
	Off   int64
	Full  bool
	Chain uint32 // for Full: the checksum of what stands in front of Off; 0: not known
}

// Next reads the next frame below end and its place. At the end it returns ErrEnd, and with Full
// fault.Newer at a frame of a newer program. Where there is no sound frame, or the file is too
// short, it returns the damage, moves behind it, and can be called again; f is then set only when
// the damage is Named.
func (w *Walker) Next(end int64, f *Frame) (off int64, bad *Damage, err error) {
	off = w.Off
	if off >= end {
		return off, nil, ErrEnd
	}
	data := w.Data[:min(end, int64(len(w.Data)))]
	err = w.look(data, off, f)
	switch {
	case err == nil:
		w.Off, w.Chain = off+f.Size(), 0
		if w.Full { // else the checksum itself may be what is damaged
			w.Chain = f.CRC
		}
		return off, nil, nil
	case w.Full && errors.Is(err, fault.Newer):
		return off, nil, err
	}
	bad = &Damage{From: off, Detail: err.Error(), Named: errors.Is(err, errBody)}
	if bad.Named {
		bad.To = off + f.Size()
	} else if bad.To = Find(data, w.Epoch, off+Align); bad.To < 0 {
		bad.To = end
	}
	w.Off, w.Chain = bad.To, 0
	return off, bad, nil
}

var errBody = fmt.Errorf("checksum mismatch: %w", ErrFrame)

func (w *Walker) look(data []byte, off int64, f *Frame) error {
	err := Peek(data, w.Epoch, off, f)
	switch {
	case err != nil || !w.Full:
		return err
	case w.Chain != 0 && f.Prev != w.Chain:
		return fmt.Errorf("a frame of another chain: %w", ErrFrame)
	case !Sum(data[off:off+int64(f.Length)], w.Epoch, off):
		return errBody
	}
	return nil
}
