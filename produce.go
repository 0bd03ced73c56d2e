package ringfence

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/subscription/shard"
	"github.com/ringfence/ringfence/topic"
)

// Produce appends a message to a topic and returns its place when it is durable at the
// configured level. Messages of one key keep the order in which their Produce calls began, if
// one begins only after the other has returned.
//
// Errors: ErrNotFound for an unknown topic, ErrConflict for an internal one and for one that was moved
// away, ErrInvalid for what can't be stored, ErrNotAppended when it is certainly not stored, ErrUnknown
// when the outcome is not known.
func (c *Client) Produce(ctx context.Context, topicName string, m Message) (Position, error) {
	if err := checkMessage(&m); err != nil {
		return Position{}, err
	}
	return c.topics.Produce(ctx, topicName, record(&m))
}

// checkMessage refuses a header that a subscription would give the record up for.
func checkMessage(m *Message) error {
	if err := shard.CheckNotBefore(m.Headers); err != nil {
		return fmt.Errorf("%w: %w", err, ErrInvalid)
	}
	return nil
}

// record is a message as it is stored.
func record(m *Message) commitlog.Record {
	r := commitlog.Record{Key: m.Key, Value: m.Value, Headers: m.Headers}
	if !m.Timestamp.IsZero() {
		r.Timestamp = m.Timestamp.UnixMilli()
	}
	return r
}

// ProduceOptions are the options of ProduceAsync.
type ProduceOptions struct {
	// Partition, when not nil, is where the message goes, whatever its key.
	Partition *int
	// Producer makes it idempotent: the same ID and sequence is stored once in a partition of the storage
	// topic Home, whatever process sends it and however often.
	Producer commitlog.Producer
	// Home is the index of the storage topic in which Producer began, from ProducerHome; its sequences
	// count in the partitions of that one. Keep it with the ID. Once the topic was switched, a message
	// that the home has is acknowledged again, and another is ErrSealed: it is stored nowhere. The
	// producer then goes on with a new ID, from sequence 0, at the home of that time. A message whose
	// answer is ErrUnknown is never sent under another ID.
	Home int
}

// ProducerHome is the index of the storage topic that takes the new records of a topic: where an
// idempotent producer that begins now belongs, see ProduceOptions. ErrConflict when the topic was moved
// to another log.
func (c *Client) ProducerHome(ctx context.Context, topicName string) (int, error) {
	return c.topics.Home(ctx, topicName)
}

// ProduceAsync queues a message and returns; done is called exactly once, from any goroutine,
// with its place or the error, and must not block. ErrNotFound when the topic was deleted since it was
// opened; the next message then goes to the topic that has the name by now, if there is one. Messages of one key that one goroutine queues
// keep their order, also while the topic is switched to its next storage topic. m's bytes must stay
// untouched until done. It blocks only while the log's write buffer is full, or very many messages
// wait for the end of a switch.
func (c *Client) ProduceAsync(ctx context.Context, topicName string, m Message, opts *ProduceOptions, done func(Position, error)) {
	t, err := c.topics.Open(ctx, topicName)
	if err == nil {
		err = checkMessage(&m)
	}
	if err != nil {
		done(Position{}, err)
		return
	}
	o, partition := orDefault(opts), topic.AnyPartition
	if o.Partition != nil {
		partition = *o.Partition
	}
	t.ProduceAsync(ctx, partition, record(&m), &topic.ProduceOptions{Producer: o.Producer, Home: o.Home}, done)
}
