package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sort"
)

const (
	indexVersion = 1
	indexFixed   = 48
	indexPart    = 24
	indexEntry   = 8
)

var indexMagic = [8]byte{'R', 'F', 'I', 'N', 'D', 'E', 'X', '1'}

// ErrIndex says that an index file is damaged or belongs to another segment; it is rebuilt.
var ErrIndex = errors.New("unusable index")

// Entry is one frame in an index.
type Entry struct {
	Base int64 // first offset
	Off  int64 // byte in the segment
}

// Index finds the frames of each partition in a closed segment.
type Index struct {
	b          []byte
	partitions int
}

// BuildIndex walks the frames of a segment up to the end of data and returns the bytes of its
// index file. ends are the bases of the next segment: what starts there or later is not part of
// the log.
func BuildIndex(data []byte, h *Header, ends []int64) []byte {
	n, end := len(h.Bases), int64(len(data))
	lists := make([][]Entry, n)
	latest := make([]int64, n)
	for i := range latest {
		latest[i] = math.MinInt64
	}
	w := Walker{Data: data, Epoch: h.Epoch(), Off: h.Length}
	total := 0
	for {
		var f Frame
		off, bad, err := w.Next(end, &f)
		if err != nil {
			break
		}
		if bad != nil || f.Kind != Records || f.Partition >= n || f.Base >= ends[f.Partition] || f.Base-h.Bases[f.Partition] > math.MaxUint32 {
			continue
		}
		lists[f.Partition] = append(lists[f.Partition], Entry{f.Base, off})
		latest[f.Partition] = max(latest[f.Partition], f.MaxTime)
		total++
	}
	return encodeIndex(h, end, lists, latest, total)
}

func encodeIndex(h *Header, end int64, lists [][]Entry, latest []int64, total int) []byte {
	le := binary.LittleEndian
	b := make([]byte, indexFixed, indexFixed+indexPart*len(lists)+indexEntry*total)
	le.PutUint32(b[4:], indexVersion)
	copy(b[8:], indexMagic[:])
	le.PutUint64(b[16:], h.Number)
	le.PutUint32(b[24:], h.CRC)
	le.PutUint32(b[28:], uint32(len(lists)))
	le.PutUint64(b[32:], uint64(end))
	le.PutUint64(b[40:], uint64(total))
	start := 0
	for p, list := range lists {
		b = le.AppendUint32(b, uint32(start))
		b = le.AppendUint32(b, uint32(len(list)))
		b = le.AppendUint64(b, uint64(h.Bases[p]))
		b = le.AppendUint64(b, uint64(latest[p]))
		start += len(list)
	}
	for p, list := range lists {
		for _, e := range list {
			b = le.AppendUint32(b, uint32(e.Base-h.Bases[p]))
			b = le.AppendUint32(b, uint32(e.Off))
		}
	}
	le.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

// ParseIndex verifies the bytes of an index file of the segment with header h that ends at end.
func ParseIndex(b []byte, h *Header, end int64) (*Index, error) {
	le := binary.LittleEndian
	if len(b) < indexFixed || [8]byte(b[8:16]) != indexMagic || le.Uint32(b[4:]) != indexVersion {
		return nil, fmt.Errorf("no index of version %d: %w", indexVersion, ErrIndex)
	}
	if crc32.Checksum(b[4:], castagnoli) != le.Uint32(b) {
		return nil, fmt.Errorf("checksum mismatch: %w", ErrIndex)
	}
	n := int(le.Uint32(b[28:]))
	if le.Uint64(b[16:]) != h.Number || le.Uint32(b[24:]) != h.CRC || n != len(h.Bases) || int64(le.Uint64(b[32:])) != end {
		return nil, fmt.Errorf("it belongs to another segment: %w", ErrIndex)
	}
	if len(b) < indexFixed+indexPart*n {
		return nil, fmt.Errorf("%d bytes for %d partitions: %w", len(b), n, ErrIndex)
	}
	x := &Index{b: b, partitions: n}
	sum := uint64(0)
	for p := range n {
		if uint64(le.Uint32(x.part(p))) != sum {
			return nil, fmt.Errorf("partition %d: %w", p, ErrIndex)
		}
		sum += uint64(x.Len(p))
	}
	if uint64(len(b)) != uint64(indexFixed+indexPart*n)+indexEntry*sum {
		return nil, fmt.Errorf("%d bytes: %w", len(b), ErrIndex)
	}
	return x, nil
}

func (x *Index) part(p int) []byte { return x.b[indexFixed+indexPart*p:][:indexPart] }

// Bytes is the memory that the index takes.
func (x *Index) Bytes() int { return len(x.b) }

// Len is how many frames partition p has in the segment.
func (x *Index) Len(p int) int { return int(binary.LittleEndian.Uint32(x.part(p)[4:])) }

// MaxTime is the latest record of partition p in the segment.
func (x *Index) MaxTime(p int) int64 { return int64(binary.LittleEndian.Uint64(x.part(p)[16:])) }

// At is frame i of partition p.
func (x *Index) At(p, i int) Entry {
	le := binary.LittleEndian
	d := x.part(p)
	b := x.b[indexFixed+indexPart*x.partitions+indexEntry*(int(le.Uint32(d))+i):]
	return Entry{Base: int64(le.Uint64(d[8:])) + int64(le.Uint32(b)), Off: int64(le.Uint32(b[4:]))}
}

// Search is the last frame of partition p that starts at or below offset; -1 when there is none.
func (x *Index) Search(p int, offset int64) int {
	return sort.Search(x.Len(p), func(i int) bool { return x.At(p, i).Base > offset }) - 1
}
