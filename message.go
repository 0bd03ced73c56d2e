package ringfence

import (
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/topic"
)

// Header is one name and value attached to a message. Names may repeat; order is kept.
type Header = commitlog.Header

// Message is a record as users see it. To produce, set Key, Value, Headers and, if need be,
// Timestamp; the rest is set on delivery.
type Message struct {
	Topic     string
	Storage   int // index of the storage topic within the topic
	Partition int
	Offset    int64 // strictly increasing within (Storage, Partition), not always dense
	// Epoch is the fencing token of the owner that delivers the record: the handler may pass it
	// on, so that a receiver can refuse a stale owner.
	Epoch int64
	// Attempt counts the deliveries of this record by this owner, from 1. A subscription goes on counting
	// when the owner changes; what was not stored when one died is not counted.
	Attempt int

	Key       []byte // the ordering key; nil: none
	Value     []byte
	Headers   []Header
	Timestamp time.Time // millisecond resolution; zero in Produce: now

	record *dispatch.Record // of which it is, while a handler is being called for it
	answer *answer          // nil: what the handler returns is all
}

// answer is what few messages have: each word more in Message is one for every record that is consumed.
type answer struct {
	commit *consumer.Commitment // of a transactional consumer
	later  *Later
}

// of makes m, which is zero, the message of a record.
func (m *Message) of(topicName string, epoch int64, r *dispatch.Record) {
	m.Topic, m.Storage, m.Partition, m.Offset, m.Epoch, m.Attempt = topicName, r.Storage, r.Partition, r.Offset, epoch, r.Attempt
	m.Key, m.Value, m.Headers, m.Timestamp = r.Key, r.Value, r.Headers, time.UnixMilli(r.Timestamp)
}

// answers is m.answer, which is made if need be.
func (m *Message) answers() *answer {
	if m.answer == nil {
		m.answer = new(answer)
	}
	return m.answer
}

// Position is the place of a record.
type Position = topic.Position
