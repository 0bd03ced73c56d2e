package ringfence

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/topic"
)

// Produce appends a message to a topic and returns its place when it is durable at the
// configured level. Messages of one key keep the order in which their Produce calls began, if
// one begins only after the other has returned.
//
// Errors: ErrNotFound for an unknown topic, ErrInvalid for what can't be stored, ErrNotAppended
// when it is certainly not stored, ErrUnknown when nobody can say.
func (c *Client) Produce(ctx context.Context, topicName string, m Message) (Position, error) {
	for {
		t, err := c.open(ctx, topicName)
		if err != nil {
			return Position{}, err
		}
		at, err := t.Produce(ctx, m.Key, topic.AnyPartition, []commitlog.Record{record(&m)}, nil)
		if !errors.Is(err, ErrNotFound) || !errors.Is(t.Refresh(ctx), topic.ErrAnotherLife) {
			return at, err
		}
	} // it is not stored, and another topic has the name: this message is meant for that
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
	// Producer makes it idempotent: the same ID and sequence is stored once in a partition. That
	// outlives switches of the topic while the client lives; a producer that is started again after
	// one begins with an ID of its own.
	Producer commitlog.Producer
}

// ProduceAsync queues a message and returns; done is called exactly once, from any goroutine,
// with its place or the error, and must not block. ErrNotFound when the topic was deleted since it was
// opened; the next message then goes to the topic that has the name by now, if there is one. Messages of one key that one goroutine queues
// keep their order, also while the topic is switched to its next storage topic. m's bytes must stay
// untouched until done. It blocks only while the log's write buffer is full, or very many messages
// wait for the end of a switch.
func (c *Client) ProduceAsync(ctx context.Context, topicName string, m Message, opts *ProduceOptions, done func(Position, error)) {
	t, err := c.open(ctx, topicName)
	if err != nil {
		done(Position{}, err)
		return
	}
	partition := topic.AnyPartition
	var ao *commitlog.AppendOptions
	if opts != nil && opts.Partition != nil {
		partition = *opts.Partition
	}
	if opts != nil && opts.Producer.ID != 0 {
		ao = &commitlog.AppendOptions{Producer: opts.Producer}
	}
	t.ProduceAsync(ctx, partition, record(&m), ao, done)
}
