package kafkalog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/driver"
)

var errRecord = errors.New("a record that does not keep to its length")

// rawRecord is a record whose key and values lie in a batch.
type rawRecord struct {
	kmsg.Record
	offset    int64
	timestamp int64
}

// next reads the first of the records of a batch.
func (r *rawRecord) next(h *header, src []byte) (rest []byte, err error) {
	n, w := binary.Varint(src)
	if w <= 0 || n < 1 || n > int64(len(src)-w) {
		return nil, errRecord
	}
	size := w + int(n)
	if err := r.ReadFrom(src[:size:size]); err != nil {
		return nil, errRecord
	}
	r.timestamp = h.FirstTimestamp + r.TimestampDelta64
	if h.Attributes&attrAppendTime != 0 {
		r.timestamp = h.MaxTimestamp
	}
	r.offset = h.FirstOffset + int64(r.OffsetDelta)
	if r.offset < h.FirstOffset || r.offset > h.last {
		return nil, errRecord
	}
	return src[size:], nil
}

// bytes are those of key, value and headers.
func (r *rawRecord) bytes() int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
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
func (r *rawRecord) copyTo(a *arena, skip string) driver.Record {
	rec := driver.Record{Offset: r.offset, Timestamp: r.timestamp, Key: a.put(r.Key), Value: a.put(r.Value)}
	for i := range r.Headers {
		if h := &r.Headers[i]; skip == "" || h.Key != skip {
			if rec.Headers == nil {
				rec.Headers = make([]driver.Header, 0, len(r.Headers)-i)
			}
			rec.Headers = append(rec.Headers, driver.Header{Name: h.Key, Value: a.put(h.Value)})
		}
	}
	return rec
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
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	return &aborts{todo: list, active: map[int64]bool{}}
}

// skip says whether readers don't see a batch; batches come in order.
func (a *aborts) skip(h *header) bool {
	if h.Attributes&attrControl != 0 {
		if a != nil {
			delete(a.active, h.ProducerID) // the end of its transaction, however it ended
		}
		return true
	}
	if a == nil || h.Attributes&attrTransaction == 0 {
		return false
	}
	for len(a.todo) > 0 && a.todo[0].FirstOffset <= h.last {
		a.active[a.todo[0].ProducerID] = true
		a.todo = a.todo[1:]
	}
	return a.active[h.ProducerID]
}
