package memlog

import (
	"fmt"
	"slices"
	"sort"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

type partition struct {
	records   []driver.Record // what they point to never changes
	dropped   int             // records that the array still keeps alive in front
	first     int64
	next      int64
	producers map[uint64][]int64 // by the ID of an idempotent producer: the first offset of each sequence
	wake      chan struct{}      // closed when next moves, at a seal, and at a delete
}

func newPartition() *partition {
	return &partition{producers: map[uint64][]int64{}, wake: make(chan struct{})}
}

func (p *partition) wakeAll() {
	close(p.wake)
	p.wake = make(chan struct{})
}

// admit checks a producer's sequence. When the append is known already it answers with its first
// offset, even on a sealed topic: a retry must learn what became of the first try.
func (p *partition) admit(id driver.Producer) (first int64, known bool, err error) {
	if id.ID == 0 {
		return 0, false, nil
	}
	firsts := p.producers[id.ID]
	next := int64(len(firsts))
	switch {
	case id.Sequence < 0 || id.Sequence > next:
		return 0, false, fmt.Errorf("producer %x appends sequence %d; expected at most %d: %w", id.ID, id.Sequence, next, fault.Invalid)
	case id.Sequence < next:
		return firsts[id.Sequence], true, nil
	}
	return 0, false, nil
}

// store appends copies of the records; the caller has admitted them.
func (p *partition) store(req *driver.AppendRequest, now int64) int64 {
	first := p.next
	from := len(p.records)
	p.records = copyRecords(p.records, req.Records, nil)
	for i := range p.records[from:] {
		r := &p.records[from+i]
		r.Offset = p.next
		p.next++
		if r.Timestamp == 0 {
			r.Timestamp = now
		}
	}
	if id := req.Producer; id.ID != 0 {
		p.producers[id.ID] = append(p.producers[id.ID], first)
	}
	return first
}

func (p *partition) index(offset int64) int {
	return sort.Search(len(p.records), func(i int) bool { return p.records[i].Offset >= offset })
}

// find is the records from offset on, at least one if there is any, and where to go on.
func (p *partition) find(offset int64, maxBytes int) ([]driver.Record, int64) {
	from := p.index(offset)
	to, total := from, int64(0)
	for to < len(p.records) {
		total += recordBytes(&p.records[to])
		if to > from && total > int64(maxBytes) {
			return p.records[from:to:to], p.records[to].Offset
		}
		to++
	}
	return p.records[from:to:to], p.next
}

func (p *partition) trim(before int64) {
	before = min(before, p.next)
	if before <= p.first {
		return
	}
	p.first = before
	drop := p.index(before)
	p.records = p.records[drop:]
	// A reader may still copy from the array, so what was dropped is freed by leaving the array.
	if p.dropped += drop; p.dropped > len(p.records) {
		p.records, p.dropped = slices.Clone(p.records), 0
	}
}

func recordBytes(r *driver.Record) int64 {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Name) + len(r.Headers[i].Value)
	}
	return int64(n)
}

// copyRecords appends deep copies of src to dst; their bytes lie in buf if it is large enough.
func copyRecords(dst, src []driver.Record, buf []byte) []driver.Record {
	total, headers := int64(0), 0
	for i := range src {
		total += recordBytes(&src[i])
		headers += len(src[i].Headers)
	}
	arena := buf[:0]
	if int64(cap(arena)) < total {
		arena = make([]byte, 0, total)
	}
	put := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		from := len(arena)
		arena = append(arena, b...)
		return arena[from:len(arena):len(arena)]
	}
	list := make([]driver.Header, 0, headers)
	for i := range src {
		r := src[i]
		r.Key, r.Value = put(r.Key), put(r.Value)
		if r.Headers != nil {
			from := len(list)
			for _, h := range r.Headers {
				list = append(list, driver.Header{Name: h.Name, Value: put(h.Value)})
			}
			r.Headers = list[from:len(list):len(list)]
		}
		dst = append(dst, r)
	}
	return dst
}
