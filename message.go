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

	commit  *consumer.Commitment // of a transactional consumer
	later   *Later
	handled bool // a handler is being called for it
}

// of makes m the message of a record.
func (m *Message) of(topicName string, epoch int64, r *dispatch.Record) {
	*m = Message{
		Topic: topicName, Storage: r.Storage, Partition: r.Partition, Offset: r.Offset, Epoch: epoch, Attempt: r.Attempt,
		Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: time.UnixMilli(r.Timestamp),
	}
}

// Position is the place of a record.
type Position = topic.Position
