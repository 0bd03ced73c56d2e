package kafkalog

import (
	"fmt"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// batch is what is sent to a partition at once.
type batch struct {
	items    []*pending
	identity *identity
	before   standing // of the identity
	sequence int32    // Kafka's, of its first record
	epoch    int16
	records  int
	size     int
	data     []byte
	headers  bool // its appends carry their sequences

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
	for w := q.peek(); w != nil; w = q.peek() {
		id := q.identity(p.s.l, w.req.Producer.ID)
		if len(b.items) > 0 && b.identity != id {
			break
		}
		v, first, err := p.judge(id, w)
		switch v {
		case look:
			if len(b.items) > 0 {
				return p.encode(b), nil, 0
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
	return p.encode(b), nil, 0
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

// encode makes the bytes of b.
func (p *partition) encode(b *batch) *batch {
	var enc builder
	enc.reset(b.size)
	now := time.Now().UnixMilli()
	for _, w := range b.items {
		extra := driver.Header{}
		if b.headers {
			extra = driver.Header{Name: sequenceHeader, Value: strconv.AppendInt(nil, w.req.Producer.Sequence, 10)}
		}
		for i := range w.req.Records {
			r := &w.req.Records[i]
			at := r.Timestamp
			if at == 0 {
				at = now
			}
			enc.add(r, at, extra)
			extra = driver.Header{}
		}
	}
	b.data = enc.finish(p.s.l.compress, b.identity.kafkaID, b.epoch, b.sequence)
	return b
}
