package kafkalog

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/limits"
)

// span is a batch that was fetched and not read yet.
type span struct {
	h       header
	body    []byte // records, maybe compressed
	skip    bool   // readers don't see it
	opened  bool   // body is no longer compressed
	at      int64  // the offset of the record that body starts with, or one in the gap before it
	size    int    // as fetched
	corrupt error  // instead of records
}

// feed buffers what one reader is going to read: batches from offset start up to end.
type feed struct {
	start, end int64
	spans      []span
	bytes      int           // of the spans, as fetched
	filling    chan struct{} // closed when the fetch that is under way ended; nil: none is
	used       uint64        // the larger, the later
	ahead      int           // what the next fetch asks for; it grows while the reader goes on reading
}

func (f *feed) has(offset int64) bool { return f.start <= offset && offset <= f.end }

// add appends what a fetch at f.end returned. A damaged batch ends the feed.
func (f *feed) add(raw []byte, a *aborts) {
	for len(raw) > 0 {
		h, size, err := nextBatch(raw)
		if err != nil {
			f.spans = append(f.spans, span{h: header{last: f.end}, at: f.end, corrupt: err})
			return
		}
		if size == 0 {
			return // cut off: the next fetch brings it
		}
		raw = raw[size:]
		skip := a.skip(&h)
		if h.last < f.end {
			continue // before what was asked for
		}
		f.spans = append(f.spans, span{h: h, body: h.Records, skip: skip, at: h.FirstOffset, size: size})
		f.bytes += size
		f.end = h.last + 1
	}
}

// drop forgets the first batch.
func (f *feed) drop() {
	f.bytes -= f.spans[0].size
	f.start = f.spans[0].h.last + 1
	f.spans[0] = span{}
	f.spans = f.spans[1:]
	if len(f.spans) == 0 {
		f.spans, f.bytes = nil, 0
	}
}

// seek forgets the batches in front of an offset.
func (f *feed) seek(offset int64) {
	for len(f.spans) > 0 && f.spans[0].h.last < offset {
		f.drop()
	}
}

// read appends the records from offset on, up to a budget, and returns the offset to read next.
func (f *feed) read(offset int64, budget int, dst []driver.Record, mem *arena, d kgo.Decompressor) ([]driver.Record, int64, error) {
	var r rawRecord
	had := len(dst)
	for len(f.spans) > 0 {
		s := &f.spans[0]
		if s.h.last < offset {
			f.drop()
			continue
		}
		if s.corrupt != nil {
			return dst, offset, s.corrupt
		}
		if s.skip {
			offset = s.h.last + 1
			f.drop()
			continue
		}
		if err := s.open(d); err != nil {
			s.corrupt = err
			return dst, offset, err
		}
		skip := ""
		if ours(s.h.ProducerID) {
			skip = sequenceHeader
		}
		for len(s.body) > 0 {
			rest, err := r.next(&s.h, s.body)
			if err != nil {
				s.corrupt = err
				return dst, offset, err
			}
			if r.offset >= offset && !isMarker(&s.h, &r) {
				size := r.bytes()
				if len(dst) > had && (size > budget || len(dst)-had >= limits.KafkaReadRecords) {
					return dst, offset, nil
				}
				budget -= size
				dst = append(dst, r.copyTo(mem, skip))
			}
			s.body, s.at = rest, r.offset+1
			offset = max(offset, s.at)
			f.start = s.at
		}
		offset = s.h.last + 1
		f.drop()
	}
	return dst, offset, nil
}

// open decompresses a batch.
func (s *span) open(d kgo.Decompressor) error {
	codec := s.h.Attributes & attrCompression
	if s.opened || codec == 0 {
		s.opened = true
		return nil
	}
	plain, err := d.Decompress(s.body, kgo.CompressionCodecType(codec))
	if err != nil {
		return fmt.Errorf("a compressed batch: %w", err)
	}
	s.body, s.opened = plain, true
	return nil
}
