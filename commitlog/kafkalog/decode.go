package kafkalog

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/driver"
)

var errRecord = errors.New("a record that does not keep to its length")

// scanner reads the fields of one record.
type scanner struct {
	p   []byte
	bad bool
}

func (s *scanner) varint() int64 {
	v, n := binary.Varint(s.p)
	if n <= 0 {
		s.bad, s.p = true, nil
		return 0
	}
	s.p = s.p[n:]
	return v
}

// bytes is nil for a length of -1.
func (s *scanner) bytes() []byte {
	n := s.varint()
	if n == -1 {
		return nil
	}
	if n < 0 || n > int64(len(s.p)) {
		s.bad, s.p = true, nil
		return nil
	}
	b := s.p[:n:n]
	s.p = s.p[n:]
	return b
}

// rawRecord is a record whose fields lie in a batch.
type rawRecord struct {
	offset    int64
	timestamp int64
	key       []byte
	value     []byte
	headers   []byte // encoded
	nHeaders  int
	bytes     int // of key and value, and an upper bound of those of the headers
}

// nextRecord splits a record off the records of a batch.
func nextRecord(h *header, src []byte) (r rawRecord, rest []byte, err error) {
	n, w := binary.Varint(src)
	if w <= 0 || n < 1 || n > int64(len(src)-w) {
		return r, nil, errRecord
	}
	s := scanner{p: src[w : w+int(n)]}
	rest = src[w+int(n):]
	s.p = s.p[1:] // attributes: unused by Kafka
	r.timestamp = h.baseTimestamp + s.varint()
	if h.attributes&attrAppendTime != 0 {
		r.timestamp = h.maxTimestamp
	}
	r.offset = h.base + s.varint()
	r.key = s.bytes()
	r.value = s.bytes()
	count := s.varint()
	if s.bad || count < 0 || count > math.MaxInt32 || r.offset < h.base || r.offset > h.last {
		return r, nil, errRecord
	}
	r.headers, r.nHeaders = s.p, int(count)
	r.bytes = len(r.key) + len(r.value) + len(s.p)
	return r, rest, nil
}

// eachHeader calls f for each header until it says false.
func (r *rawRecord) eachHeader(f func(name, value []byte) bool) error {
	s := scanner{p: r.headers}
	for range r.nHeaders {
		name := s.bytes()
		value := s.bytes()
		if s.bad {
			return errRecord
		}
		if !f(name, value) {
			return nil
		}
	}
	return nil
}

// arena copies bytes into one piece of memory.
type arena struct{ buf []byte }

func (a *arena) put(b []byte) []byte {
	if len(b) == 0 {
		return b // nothing to copy, and nil stays nil
	}
	if len(a.buf)+len(b) > cap(a.buf) {
		a.buf = make([]byte, 0, max(len(b), 64<<10))
	}
	from := len(a.buf)
	a.buf = append(a.buf, b...)
	return a.buf[from:len(a.buf):len(a.buf)]
}

// copyTo makes a record of r whose bytes lie in the arena, without the header named skip.
func (r *rawRecord) copyTo(a *arena, skip string) (driver.Record, error) {
	rec := driver.Record{Offset: r.offset, Timestamp: r.timestamp, Key: a.put(r.key), Value: a.put(r.value)}
	if r.nHeaders == 0 {
		return rec, nil
	}
	rec.Headers = make([]driver.Header, 0, min(r.nHeaders, len(r.headers)/2))
	err := r.eachHeader(func(name, value []byte) bool {
		if skip == "" || string(name) != skip {
			rec.Headers = append(rec.Headers, driver.Header{Name: string(name), Value: a.put(value)})
		}
		return true
	})
	if len(rec.Headers) == 0 {
		rec.Headers = nil
	}
	return rec, err
}

// aborts tells which transactional batches of a response were aborted.
type aborts struct {
	todo   []kmsg.FetchResponseTopicPartitionAbortedTransaction // by first offset
	active map[int64]bool                                       // by producer
}

func newAborts(list []kmsg.FetchResponseTopicPartitionAbortedTransaction) *aborts {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return int(min(max(a.FirstOffset-b.FirstOffset, -1), 1))
	})
	return &aborts{todo: list, active: map[int64]bool{}}
}

// skip says whether readers don't see a batch; batches come in order.
func (a *aborts) skip(h *header) bool {
	if h.attributes&attrControl != 0 {
		if a != nil {
			delete(a.active, h.producer) // the end of its transaction, however it ended
		}
		return true
	}
	if a == nil || h.attributes&attrTransaction == 0 {
		return false
	}
	for len(a.todo) > 0 && a.todo[0].FirstOffset <= h.last {
		a.active[a.todo[0].ProducerID] = true
		a.todo = a.todo[1:]
	}
	return a.active[h.producer]
}
