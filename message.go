package ringfence

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/topic"
)

// Header is attached to a message: a Name string and a Value []byte. Names may repeat; order is kept.
type Header = commitlog.Header

// Message is a record as users see it. To produce, set Key, Value, Headers and, if need be,
// Timestamp; the rest is set on delivery.
type Message struct {
	Topic     string
	Storage   int // index of the storage topic within the topic
	Partition int
	Offset    int64 // strictly increasing within (Storage, Partition), not always dense
	Epoch     int64 // of the owner that delivers the record, the first half of its Token
	// Attempt counts the deliveries of this record by this owner, from 1. A subscription goes on counting
	// when the owner changes; what was not stored when one died is not counted.
	Attempt int

	Key       []byte // the ordering key; nil: none
	Value     []byte
	Headers   []Header
	Timestamp time.Time // millisecond resolution; zero in Produce: now

	handOut uint64           // its number; 0: it was not handed to a handler
	record  *dispatch.Record // of which it is, while a handler is being called for it
	answer  *answer          // nil: what the handler returns is all
}

// handOuts counts all messages that this process has handed to handlers. Within an epoch they are all its own.
var handOuts atomic.Uint64 //nolint:gochecknoglobals // of the process, as the token says

// Token is the fencing token of the message: 32 hex digits, 16 of the epoch and 16 of the hand-out. For a key it
// rises with every message and every attempt, across owners, growth, reshards, redrives, seeks, and a topic made anew
// under its name. What the handler writes to keeps the highest token of each key and refuses lower ones: it refuses
// no valid message then, and every stale one. Equal is allowed. "" for a message that no handler got, and those of Tail.
//
// A token says nothing about records without a key, nor about subscriptions that don't order by key.
func (m *Message) Token() string {
	if m.handOut == 0 {
		return ""
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(m.Epoch)) //nolint:gosec // not negative
	binary.BigEndian.PutUint64(b[8:], m.handOut)
	return hex.EncodeToString(b[:])
}

// answer is what few messages have: each word more in Message is one for every record that is consumed.
type answer struct {
	commit *consumer.Commitment // of a transactional consumer
	later  *dispatch.Later
}

// of makes m, which is zero, the message of a record.
func (m *Message) of(topicName string, epoch int64, r *dispatch.Record) {
	m.Topic, m.Storage, m.Partition, m.Offset, m.Epoch, m.Attempt = topicName, r.Storage, r.Partition, r.Offset, epoch, r.Attempt
	m.Key, m.Value, m.Headers, m.Timestamp = r.Key, r.Value, r.Headers, time.UnixMilli(r.Timestamp)
}

// handedTo makes m, which is zero, the message of a record that a handler gets.
func (m *Message) handedTo(topicName string, epoch int64, r *dispatch.Record) {
	m.of(topicName, epoch, r)
	m.handOut = handOuts.Add(1)
}

// answers is m.answer, which is made if need be.
func (m *Message) answers() *answer {
	if m.answer == nil {
		m.answer = new(answer)
	}
	return m.answer
}

// Position is the place of a record: its Topic string, the index of the Storage topic, Partition int and Offset int64.
type Position = topic.Position

// Record is m as programs read it, see api.Record.
func (m *Message) Record() *api.Record {
	r := &api.Record{
		Topic: m.Topic, Storage: m.Storage, Partition: m.Partition, Offset: m.Offset, Epoch: m.Epoch, Token: m.Token(),
		Timestamp: api.TimeOf(m.Timestamp), Headers: make([]api.Header, len(m.Headers)),
	}
	if m.Attempt > 1 {
		r.Attempt = m.Attempt
	}
	r.Key, r.KeyEncoding = api.KeyText(m.Key)
	r.Value, r.ValueEncoding = api.Text(m.Value)
	for i, h := range m.Headers {
		r.Headers[i].Name = h.Name
		r.Headers[i].Value, r.Headers[i].ValueEncoding = api.Text(h.Value)
	}
	return r
}

// MessageOf is a message with the key, value, headers and time of r, to be produced. ErrInvalid for texts that are not in
// their encoding, and for a wrong time.
func MessageOf(r *api.Record) (m Message, err error) {
	if r.Key != nil {
		if m.Key, err = api.Bytes(*r.Key, r.KeyEncoding); err != nil {
			return m, fmt.Errorf("key: %w: %w", err, ErrInvalid)
		}
	}
	if m.Value, err = api.Bytes(r.Value, r.ValueEncoding); err != nil {
		return m, fmt.Errorf("value: %w: %w", err, ErrInvalid)
	}
	for _, h := range r.Headers {
		value, err := api.Bytes(h.Value, h.ValueEncoding)
		if err != nil {
			return m, fmt.Errorf("header %q: %w: %w", h.Name, err, ErrInvalid)
		}
		m.Headers = append(m.Headers, Header{Name: h.Name, Value: value})
	}
	if r.Timestamp != "" {
		if m.Timestamp, err = time.Parse(time.RFC3339, string(r.Timestamp)); err != nil {
			return m, fmt.Errorf("timestamp: %w: %w", err, ErrInvalid)
		}
	}
	return m, nil
}
