package kafkalog

import (
	"cmp"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// A batch of Kafka's is of one Kafka producer, whose records in the partition are numbered without a
// gap. So what goes into a batch, and in which order, is decided here, from the front of
// the partition's queue, and nothing is sent that was not numbered here.
//
//   - What failed goes first, and as it is: the broker knows it by its numbers, if it has it.
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
	data     []byte // what is sent
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
	for w := q.peek(); w != nil; w = q.peek() {
		id := q.identity(w.req.Producer.ID)
		if len(b.items) > 0 && b.identity != id {
			break
		}
		v, first, err := id.judge(w, q.refused)
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
		if !b.admit(id, w, cmp.Or(q.target, batchTarget)) {
			break
		}
		q.pop()
	}
	if len(b.items) == 0 {
		return nil, nil, 0
	}
	return p.encodeAll(b), nil, 0
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

// encodeAll makes the bytes of b.
func (p *partition) encodeAll(b *batch) *batch {
	var enc builder
	enc.reset(make([]byte, 0, b.size+batchHeader))
	for _, w := range b.items {
		extra := driver.Header{}
		if b.headers {
			extra = driver.Header{Name: sequenceHeader, Value: strconv.AppendInt(nil, w.req.Producer.Sequence, 10)}
		}
		for i := range w.req.Records {
			r := &w.req.Records[i]
			enc.add(r, cmp.Or(r.Timestamp, w.since.UnixMilli()), extra)
			extra = driver.Header{}
		}
	}
	b.data = enc.finish(p.s.l.compress, b.identity.kafkaID, b.epoch, b.sequence)
	return b
}
