package segment

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Producers is what a topic knows of its idempotent producers when a segment starts.
//
//	floor u64          every ID up to it may be one that was forgotten
//	forgotten u32      how many IDs above floor were forgotten, then these, u64 each, ascending
//	producers u32      how many are known, then these, the longest silent first:
//	  id u64
//	  epoch varint, zigzag
//	  streams varint   partitions that it has appended to, then these, ascending; none when all that
//	                   it appended is damaged, but for the frame that tells of its epoch:
//	    partition varint
//	    sequence varint   the newest
//	    kept varint       how many first offsets follow, at least 1
//	    first offset varint, of the newest; of each older one the distance to the one after it, varint
//
// The section is empty as long as no idempotent producer has appended.
type Producers struct {
	Floor     uint64
	Forgotten []uint64
	Known     []*Producer
}

// Producer is one idempotent producer.
type Producer struct {
	ID      uint64
	Epoch   int32 // the highest, in whatever partition
	Streams []Stream
}

// Stream is what one producer has appended to one partition.
type Stream struct {
	Partition int
	Sequence  int64   // the newest
	First     []int64 // first offsets of Sequence, Sequence-1, …
}

// ProducerBytes is more than a producer takes beside its streams.
const ProducerBytes = 8 + binary.MaxVarintLen32 + binary.MaxVarintLen16

// AppendProducers encodes p behind b.
func AppendProducers(b []byte, p *Producers) []byte {
	if p.Floor == 0 && len(p.Forgotten)+len(p.Known) == 0 {
		return b
	}
	le := binary.LittleEndian
	b = le.AppendUint64(b, p.Floor)
	b = le.AppendUint32(b, uint32(len(p.Forgotten)))
	for _, id := range p.Forgotten {
		b = le.AppendUint64(b, id)
	}
	b = le.AppendUint32(b, uint32(len(p.Known)))
	for _, k := range p.Known {
		b = le.AppendUint64(b, k.ID)
		b = binary.AppendVarint(b, int64(k.Epoch))
		b = binary.AppendUvarint(b, uint64(len(k.Streams)))
		for i := range k.Streams {
			b = AppendStream(b, &k.Streams[i])
		}
	}
	return b
}

// AppendStream encodes s behind b.
func AppendStream(b []byte, s *Stream) []byte {
	b = binary.AppendUvarint(b, uint64(s.Partition))
	b = binary.AppendUvarint(b, uint64(s.Sequence))
	b = binary.AppendUvarint(b, uint64(len(s.First)))
	after := int64(0)
	for i, first := range s.First {
		if i == 0 {
			b = binary.AppendUvarint(b, uint64(first))
		} else {
			b = binary.AppendUvarint(b, uint64(after-first))
		}
		after = first
	}
	return b
}

// ParseProducers decodes the producers of a header; ErrHeader when the section is not sound.
func ParseProducers(b []byte, partitions int) (*Producers, error) {
	p := &Producers{}
	if len(b) == 0 {
		return p, nil
	}
	r := &section{b: b}
	p.Floor = r.fixed()
	for range r.count(8) {
		p.Forgotten = append(p.Forgotten, r.fixed())
	}
	for range r.count(ProducerBytes - binary.MaxVarintLen32 - binary.MaxVarintLen16) {
		k := &Producer{ID: r.fixed(), Epoch: int32(r.signed())}
		for range min(r.number(), uint64(partitions)) {
			k.Streams = append(k.Streams, r.stream())
		}
		p.Known = append(p.Known, k)
	}
	if r.bad || len(r.b) > 0 || !p.sound(partitions) {
		return nil, fmt.Errorf("the producers in it: %w", ErrHeader)
	}
	return p, nil
}

// sound says whether everything is in the order that it is promised to be in.
func (p *Producers) sound(partitions int) bool {
	for _, k := range p.Known {
		for i, s := range k.Streams {
			if s.Partition >= partitions || i > 0 && s.Partition <= k.Streams[i-1].Partition || len(s.First) == 0 {
				return false
			}
		}
	}
	return slices.IsSorted(p.Forgotten)
}

// section reads what ParseProducers decodes; bad says that it ended too early.
type section struct {
	b   []byte
	bad bool
}

func (r *section) fixed() uint64 {
	if len(r.b) < 8 {
		r.b, r.bad = nil, true
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// count reads the number of things of so many bytes at least, of which there can't be more than fit.
func (r *section) count(each int) uint32 {
	if len(r.b) < 4 {
		r.b, r.bad = nil, true
		return 0
	}
	n := binary.LittleEndian.Uint32(r.b)
	r.b = r.b[4:]
	if int64(n)*int64(each) > int64(len(r.b)) {
		r.b, r.bad = nil, true
		return 0
	}
	return n
}

func (r *section) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *section) signed() int64 {
	v := r.number()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *section) stream() Stream {
	s := Stream{Partition: int(min(r.number(), 1<<31)), Sequence: int64(r.number())}
	kept := r.number()
	if kept > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return s
	}
	for i := range kept {
		first := int64(r.number())
		if i > 0 {
			first = s.First[i-1] - first
		}
		s.First = append(s.First, first)
	}
	return s
}
