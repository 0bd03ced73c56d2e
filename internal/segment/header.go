package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/ringfence/ringfence/internal/fault"
)

// Block is the unit of writing: headers and writes are padded to it, because a write of a whole
// block into a file that is not cached needs no read first.
const Block = 4096

const (
	headerFixed   = 112
	headerVersion = 1

	// MaxHeader is the largest header. A larger length is damage.
	MaxHeader = 2 << 20
)

var headerMagic = [8]byte{'R', 'F', 'S', 'E', 'G', 'M', 'T', '1'}

// ErrHeader says that a segment's header is not sound.
var ErrHeader = errors.New("damaged segment header")

// Header is the header of a segment.
type Header struct {
	CRC       uint32 // the chain of the segment's frames starts with it
	Length    int64  // with padding: where the first frame stands
	TopicID   uint64
	Number    uint64
	Size      int64
	PrevEnd   int64  // where the frames of the segment before end
	PrevCRC   uint32 // of the header of the segment before; 0: that was not there
	Synced    Pos
	Created   int64  // Unix milliseconds
	Boot      uint64 // of which run of the host Uptime is
	Uptime    int64  // milliseconds of the host's monotonic clock when the segment was made
	Salt      uint64
	Sealed    bool // the topic was sealed in an earlier segment
	Bases     []int64
	Producers []byte // encoded, see Producers
}

// Epoch seeds the checksums of the segment's frames.
func (h *Header) Epoch() uint64 { return Epoch(h.TopicID, h.Number) }

// Limit is where the room for frames ends, in a file of so many bytes: the copy of the header
// stands behind it.
func (h *Header) Limit(size int64) int64 { return max(min(h.Size, size)-h.Length, h.Length) }

// FindCopy looks for a copy of a header at the end of a file of which b is the last part, for
// when the one at the start is damaged.
func FindCopy(b []byte) (*Header, error) {
	for n := Block; n <= len(b); n += Block {
		c := b[len(b)-n:]
		if length, err := HeaderLength(c); err == nil && length == int64(n) {
			return ParseHeader(c)
		}
	}
	return nil, fmt.Errorf("no copy at the end of the file either: %w", ErrHeader)
}

// HeaderSize is the padded size of a header for so many partitions, without producers.
func HeaderSize(partitions int) int64 {
	return (headerFixed + 8*int64(partitions) + Block - 1) &^ (Block - 1)
}

// AppendHeader encodes h behind b, which must be empty, and sets its CRC and Length.
func AppendHeader(b []byte, h *Header) []byte {
	le := binary.LittleEndian
	b = append(b, make([]byte, headerFixed)...)
	copy(b[8:], headerMagic[:])
	le.PutUint32(b[16:], headerVersion)
	le.PutUint32(b[20:], uint32(len(h.Bases)))
	le.PutUint64(b[24:], h.TopicID)
	le.PutUint64(b[32:], h.Number)
	le.PutUint64(b[40:], uint64(h.Size))
	le.PutUint64(b[48:], uint64(h.PrevEnd))
	le.PutUint64(b[56:], uint64(h.Synced))
	le.PutUint64(b[64:], uint64(h.Created))
	le.PutUint64(b[72:], h.Salt)
	le.PutUint32(b[80:], uint32(len(h.Producers)))
	if h.Sealed {
		le.PutUint32(b[84:], 1)
	}
	le.PutUint64(b[88:], h.Boot)
	le.PutUint64(b[96:], uint64(h.Uptime))
	le.PutUint32(b[104:], h.PrevCRC)
	for _, base := range h.Bases {
		b = le.AppendUint64(b, uint64(base))
	}
	b = append(b, h.Producers...)
	if pad := len(b) % Block; pad != 0 {
		b = append(b, make([]byte, Block-pad)...)
	}
	h.Length = int64(len(b))
	le.PutUint32(b[4:], uint32(len(b)))
	h.CRC = crc32.Checksum(b[4:], castagnoli)
	le.PutUint32(b, h.CRC)
	return b
}

// HeaderLength is the length that the header at the start of b claims to have; ErrHeader when
// there is none.
func HeaderLength(b []byte) (int64, error) {
	if len(b) < headerFixed || [8]byte(b[8:16]) != headerMagic {
		return 0, fmt.Errorf("no magic: %w", ErrHeader)
	}
	n := int64(binary.LittleEndian.Uint32(b[4:]))
	if n < Block || n%Block != 0 || n > MaxHeader {
		return 0, fmt.Errorf("a length of %d: %w", n, ErrHeader)
	}
	return n, nil
}

// Identity reads the number of the segment that a header belongs to without checking anything
// else. A reader compares it to learn that a file was recycled under it.
func Identity(b []byte) (crc uint32, number uint64) {
	le := binary.LittleEndian
	return le.Uint32(b), le.Uint64(b[32:])
}

// ParseHeader decodes and verifies the header at the start of b.
func ParseHeader(b []byte) (*Header, error) {
	n, err := HeaderLength(b)
	if err != nil {
		return nil, err
	}
	if n > int64(len(b)) {
		return nil, fmt.Errorf("a header of %d bytes in %d: %w", n, len(b), ErrHeader)
	}
	b = b[:n]
	le := binary.LittleEndian
	h := &Header{CRC: le.Uint32(b), Length: n}
	if crc32.Checksum(b[4:], castagnoli) != h.CRC {
		return nil, fmt.Errorf("checksum mismatch: %w", ErrHeader)
	}
	if v := le.Uint32(b[16:]); v > headerVersion {
		return nil, fmt.Errorf("segment header version %d, this program reads %d: %w", v, headerVersion, fault.Newer)
	}
	partitions, producers := int(le.Uint32(b[20:])), int(le.Uint32(b[80:]))
	h.TopicID = le.Uint64(b[24:])
	h.Number = le.Uint64(b[32:])
	h.Size = int64(le.Uint64(b[40:]))
	h.PrevEnd = int64(le.Uint64(b[48:]))
	h.Synced = Pos(le.Uint64(b[56:]))
	h.Created = int64(le.Uint64(b[64:]))
	h.Salt = le.Uint64(b[72:])
	h.Sealed = le.Uint32(b[84:])&1 != 0
	h.Boot = le.Uint64(b[88:])
	h.Uptime = int64(le.Uint64(b[96:]))
	h.PrevCRC = le.Uint32(b[104:])
	b = b[headerFixed:]
	if partitions < 1 || partitions*8 > len(b) {
		return nil, fmt.Errorf("%d partitions: %w", partitions, ErrHeader)
	}
	h.Bases = make([]int64, partitions)
	for i := range h.Bases {
		h.Bases[i] = int64(le.Uint64(b[8*i:]))
	}
	b = b[8*partitions:]
	if producers > len(b) {
		return nil, fmt.Errorf("%d bytes of producers: %w", producers, ErrHeader)
	}
	if producers > 0 {
		h.Producers = b[:producers:producers]
	}
	return h, nil
}
