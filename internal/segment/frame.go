package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/ringfence/ringfence/internal/fault"
)

// FrameHeader is the size of a frame's header.
const FrameHeader = 80

// MaxFrame is the largest frame. A larger length field is damage.
const MaxFrame = 64 << 20

const frameVersion = 1

// Kind says what a frame is.
type Kind uint8

// The kinds of frames.
const (
	Records Kind = 1 // records of one partition
	Seal    Kind = 2 // the end of the topic, for all partitions
)

// Frame is the header of a frame.
type Frame struct {
	CRC           uint32
	Length        int // header included, padding not
	Prev          uint32
	Kind          Kind
	Partition     int
	Count         int
	Base          int64 // offset of the first record
	Synced        Pos
	Time, MaxTime int64 // Unix milliseconds
	ProducerID    uint64
	Sequence      int64
	ProducerEpoch int32
}

// Next is the offset after the frame's last record.
func (f *Frame) Next() int64 { return f.Base + int64(f.Count) }

// Size is the room that the frame takes in its segment.
func (f *Frame) Size() int64 { return AlignUp(int64(f.Length)) }

var (
	// ErrEnd says that there are zeros where a frame would start.
	ErrEnd = errors.New("no frame")
	// ErrFrame says that the bytes are not a sound frame; the text says why.
	ErrFrame = errors.New("damaged frame")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seed binds a checksum to its segment and place, so that bytes of a recycled file can't pass for new ones.
func seed(epoch uint64, off int64) uint32 {
	x := (epoch ^ uint64(off)) * 0x9e3779b97f4a7c15
	return uint32(x >> 32)
}

// SealFrame fills in the header of a frame whose records stand behind it already, computes the
// checksum for its place, and returns the checksum.
func SealFrame(b []byte, f *Frame, epoch uint64, off int64) uint32 {
	le := binary.LittleEndian
	_ = b[FrameHeader-1]
	le.PutUint32(b[4:], uint32(len(b)))
	le.PutUint32(b[8:], f.Prev)
	b[12], b[13], b[14], b[15] = frameVersion, byte(f.Kind), 0, 0
	le.PutUint32(b[16:], uint32(f.Partition))
	le.PutUint32(b[20:], uint32(f.Count))
	le.PutUint64(b[24:], uint64(f.Base))
	le.PutUint64(b[32:], uint64(f.Synced))
	le.PutUint64(b[40:], uint64(f.Time))
	le.PutUint64(b[48:], uint64(f.MaxTime))
	le.PutUint64(b[56:], f.ProducerID)
	le.PutUint64(b[64:], uint64(f.Sequence))
	le.PutUint32(b[72:], uint32(f.ProducerEpoch))
	start := seed(epoch, off)
	le.PutUint32(b[76:], crc32.Update(start, castagnoli, b[4:76]))
	f.Length = len(b)
	f.CRC = crc32.Update(start, castagnoli, b[4:])
	le.PutUint32(b, f.CRC)
	return f.CRC
}

// Peek reads and verifies the header of the frame at off, not its records. data is the segment
// from its first byte; frames end at len(data) at the latest.
func Peek(data []byte, epoch uint64, off int64, f *Frame) error {
	if off < 0 || off+FrameHeader > int64(len(data)) {
		return ErrEnd
	}
	b := data[off : off+FrameHeader : off+FrameHeader]
	le := binary.LittleEndian
	length := int64(le.Uint32(b[4:]))
	if length == 0 {
		if le.Uint32(b) == 0 && b[12] == 0 {
			return ErrEnd
		}
		return fmt.Errorf("a length of 0: %w", ErrFrame)
	}
	if length < FrameHeader || length > MaxFrame || off+length > int64(len(data)) {
		return fmt.Errorf("a length of %d bytes: %w", length, ErrFrame)
	}
	if b[12] > frameVersion && crc32.Update(seed(epoch, off), castagnoli, b[4:76]) == le.Uint32(b[76:]) {
		return fmt.Errorf("frame version %d, this program reads %d: %w", b[12], frameVersion, fault.Newer)
	}
	if b[12] != frameVersion || (b[13] != byte(Records) && b[13] != byte(Seal)) {
		return fmt.Errorf("version %d kind %d: %w", b[12], b[13], ErrFrame)
	}
	if crc32.Update(seed(epoch, off), castagnoli, b[4:76]) != le.Uint32(b[76:]) {
		return fmt.Errorf("header checksum mismatch: %w", ErrFrame)
	}
	parse(b, f)
	return nil
}

// Raw is the length field of the frame at off, or 0 when no frame of that length fits there. It
// verifies nothing: a reader copies so many bytes and checks the copy with Open.
func Raw(data []byte, off int64) int {
	if off < 0 || off+FrameHeader > int64(len(data)) {
		return 0
	}
	n := int64(binary.LittleEndian.Uint32(data[off+4:]))
	if n < FrameHeader || n > MaxFrame || off+n > int64(len(data)) {
		return 0
	}
	return int(n)
}

// Open verifies a frame that was copied from place off and reads its header.
func Open(b []byte, epoch uint64, off int64, f *Frame) bool {
	if !Sum(b, epoch, off) || int(binary.LittleEndian.Uint32(b[4:])) != len(b) || b[12] != frameVersion {
		return false
	}
	parse(b, f)
	return true
}

func parse(b []byte, f *Frame) {
	le := binary.LittleEndian
	_ = b[FrameHeader-1]
	f.CRC = le.Uint32(b)
	f.Length = int(le.Uint32(b[4:]))
	f.Prev = le.Uint32(b[8:])
	f.Kind = Kind(b[13])
	f.Partition = int(le.Uint32(b[16:]))
	f.Count = int(le.Uint32(b[20:]))
	f.Base = int64(le.Uint64(b[24:]))
	f.Synced = Pos(le.Uint64(b[32:]))
	f.Time = int64(le.Uint64(b[40:]))
	f.MaxTime = int64(le.Uint64(b[48:]))
	f.ProducerID = le.Uint64(b[56:])
	f.Sequence = int64(le.Uint64(b[64:]))
	f.ProducerEpoch = int32(le.Uint32(b[72:]))
}

// Sum checks the checksum of a whole frame (b is the frame and nothing else) at its place.
func Sum(b []byte, epoch uint64, off int64) bool {
	return len(b) >= FrameHeader &&
		crc32.Update(seed(epoch, off), castagnoli, b[4:]) == binary.LittleEndian.Uint32(b)
}

// Check reads the frame at off and verifies its checksum.
func Check(data []byte, epoch uint64, off int64, f *Frame) error {
	if err := Peek(data, epoch, off, f); err != nil {
		return err
	}
	if !Sum(data[off:off+int64(f.Length)], epoch, off) {
		return errBody
	}
	return nil
}
