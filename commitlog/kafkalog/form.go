package kafkalog

import (
	"fmt"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// A batch of Kafka's is of one Kafka producer, whose records in the partition are numbered without a
// gap. So what goes into a batch, and in which order, is decided here, from the front of
// the partition's queue, and nothing is sent that was not numbered here.
//
//   - What failed goes first, and as it is: the broker knows it by its numbers, if it has it.
//   - A batch that Append has encoded is whole. It gets the next numbers of the log's own identity.
//   - Appends of producers are told apart by their sequences, and judged one by one (identity.go). What
//     is stored already is answered, or shares the fate of its like in this batch. What can't be is
//     refused. What only the broker can tell waits: the batch goes without it, and when nothing is in
//     front of it any more, form says whose numbers to ask for.
//   - The others are taken as long as they fit: into the size, and to the producer, its epoch and the
//     way in which their sequences are told.
//
// What is taken moves its identity on before it is sent. The batch keeps where that stood before, for
// when it turns out that nothing was stored (undo in identity.go).

// batch is what is sent to a partition at once.
type batch struct {
	items    []*pending
	identity *identity
	before   standing // of the identity
	sequence int32    // Kafka's, of its first record
	epoch    int16
	records  int
	size     int
	enc      builder
	data     []byte // what is sent
	pooled   bool   // its memory is used again once the broker has answered
	headers  bool   // its appends carry their sequences

	broker   int32 // to which it was sent last
	attempts int
	maybe    bool // an attempt may have been stored
}

// since is when the oldest of its appends came.
func (b *batch) since() time.Time { return b.items[0].since }

// form takes the next batch off the queue, and answers the appends on the way whose answers are
// known. No batch and an identity: the broker has to be asked about it first. The caller owns p.
func (p *partition) form() (*batch, *identity, int) {
	q := &p.produce
	if b := q.retry; b != nil {
		q.retry = nil
		return b, nil, 0
	}
	b := &batch{}
	for e := q.peek(); e != (entry{}); e = q.peek() {
		if e.b != nil {
			if len(b.items) > 0 {
				break
			}
			ready := q.popBatch()
			if q.refused {
				p.answerAll(ready, errRefused)
				continue
			}
			return p.claim(ready), nil, 0
		}
		w := e.w
		id := q.identity(w.req.Producer.ID)
		if len(b.items) > 0 && b.identity != id {
			break
		}
		v, first, err := p.judge(id, w)
		switch v {
		case look:
			if len(b.items) > 0 {
				return p.encodeAll(b), nil, 0
			}
			return nil, id, w.looked + 1
		case known:
			q.pop()
			if !b.share(w) {
				p.answer(w, first, nil)
			}
			continue
		case refuse:
			q.pop()
			p.answer(w, 0, err)
			continue
		case take:
		}
		if !b.admit(id, w, p.target()) {
			break
		}
		q.pop()
	}
	if len(b.items) == 0 {
		return nil, nil, 0
	}
	return p.encodeAll(b), nil, 0
}

func (p *partition) target() int {
	if t := p.produce.target; t > 0 {
		return t
	}
	return batchTarget
}

func (p *partition) judge(id *identity, w *pending) (verdict, int64, error) {
	if id.id != 0 {
		return id.judge(w, p.produce.refused)
	}
	if p.produce.refused {
		return refuse, 0, fmt.Errorf("the topic is %w and takes no more records", fault.Sealed)
	}
	return take, 0, nil
}

// share lets a repeated append have the answer of the one that is in b already.
func (b *batch) share(w *pending) bool {
	for _, have := range b.items {
		if have.req.Producer.Sequence == w.req.Producer.Sequence {
			have.also = append(have.also, w)
			return true
		}
	}
	return false
}

// admit takes an append into b, if there is room, and it goes with the others.
func (b *batch) admit(id *identity, w *pending, target int) bool {
	fresh := len(b.items) == 0
	if !fresh && b.size+w.size > target {
		return false
	}
	before := id.standing
	if id.id != 0 {
		if e := w.req.Producer.Epoch; e != id.epoch {
			if !fresh {
				return false
			}
			id.epoch, id.kafkaSeq = e, 0 // Kafka numbers the records of an epoch anew
		}
		headers := !id.plain(w.req)
		if !fresh && headers != b.headers {
			return false
		}
		b.headers = headers
		id.next = w.req.Producer.Sequence + 1
	}
	if fresh {
		b.identity, b.before, b.sequence, b.epoch = id, before, id.kafkaSeq, int16(id.epoch) //nolint:gosec // judged
	}
	b.items = append(b.items, w)
	b.size += w.size
	b.records += len(w.req.Records)
	b.maybe = b.maybe || w.maybe
	id.kafkaSeq = follow(id.kafkaSeq, len(w.req.Records))
	return true
}

// claim gives a batch of the log's own identity its place in the sequence.
func (p *partition) claim(b *batch) *batch {
	id := p.produce.identity(0)
	b.identity, b.before, b.sequence, b.epoch = id, id.standing, id.kafkaSeq, int16(id.epoch) //nolint:gosec // renew keeps it small
	id.kafkaSeq = follow(id.kafkaSeq, b.records)
	b.data = b.enc.finish(p.s.l.compress, id.kafkaID, b.epoch, b.sequence)
	return b
}

// encodeAll makes the bytes of b.
func (p *partition) encodeAll(b *batch) *batch {
	b.enc.reset(make([]byte, 0, b.size+batchHeader))
	for _, w := range b.items {
		extra := driver.Header{}
		if b.headers {
			extra = driver.Header{Name: sequenceHeader, Value: strconv.AppendInt(nil, w.req.Producer.Sequence, 10)}
		}
		b.enc.addAll(w, extra)
	}
	b.data = b.enc.finish(p.s.l.compress, b.identity.kafkaID, b.epoch, b.sequence)
	return b
}

// addAll appends the records of an append; extra is one more header of the first, if it has a name.
func (b *builder) addAll(w *pending, extra driver.Header) {
	for i := range w.req.Records {
		r := &w.req.Records[i]
		at := r.Timestamp
		if at == 0 {
			at = w.since.UnixMilli()
		}
		b.add(r, at, extra)
		extra = driver.Header{}
	}
}

const (
	smallBuffer  = 4 << 10
	mediumBuffer = 64 << 10
	largeBuffer  = batchTarget + batchTarget/8
)

// encode appends w to a batch that waits, in memory that grows with it: a partition that gets
// little takes little.
func (b *batch) encode(l *kafkaLog, w *pending) {
	switch need := b.size + w.size + batchHeader; {
	case len(b.items) == 0:
		b.enc.reset(make([]byte, 0, max(smallBuffer, need)))
	case need <= cap(b.enc.buf):
	case need <= mediumBuffer: // in large steps: each copies what is there
		b.enc.buf = append(make([]byte, 0, min(max(need, 4*cap(b.enc.buf)), mediumBuffer)), b.enc.buf...)
	case need <= largeBuffer && !b.pooled:
		large, _ := l.buffers.Get().([]byte)
		b.enc.buf = append(large[:0], b.enc.buf...)
		b.pooled = true
	}
	b.items = append(b.items, w)
	b.size += w.size
	b.records += len(w.req.Records)
	b.enc.addAll(w, driver.Header{})
}

// recycle gives the memory of a batch back that the broker has acked: nobody looks at it any more.
func (b *batch) recycle(l *kafkaLog) {
	if b.pooled && cap(b.data) >= largeBuffer {
		l.buffers.Put(b.data[:0]) //nolint:staticcheck // one allocation of a slice header for a megabyte
	}
	b.data, b.enc.buf, b.pooled = nil, nil, false
}
