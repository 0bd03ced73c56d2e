package ringfence

import (
	"context"
	"fmt"

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
	t, err := c.open(ctx, topicName)
	if err != nil {
		return Position{}, err
	}
	storage, partition := t.Route(m.Key)
	at := Position{Topic: topicName, Storage: storage, Partition: partition}
	at.Offset, err = t.Append(ctx, storage, partition, []commitlog.Record{record(&m)})
	if err != nil {
		return Position{}, err
	}
	return at, nil
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
	// Producer makes it idempotent: the same ID and sequence is stored once in a partition.
	Producer commitlog.Producer
}

// ProduceAsync queues a message and returns; done is called exactly once, from any goroutine,
// with its place or the error, and must not block. Messages of one key that one goroutine queues
// keep their order. m's bytes must stay untouched until done. It blocks only while the log's
// write buffer is full.
func (c *Client) ProduceAsync(ctx context.Context, topicName string, m Message, opts *ProduceOptions, done func(Position, error)) {
	t, err := c.open(ctx, topicName)
	if err != nil {
		done(Position{}, err)
		return
	}
	storage, partition, err := place(t, &m, opts)
	if err != nil {
		done(Position{}, err)
		return
	}
	var ao *commitlog.AppendOptions
	if opts != nil && opts.Producer.ID != 0 {
		ao = &commitlog.AppendOptions{Producer: opts.Producer}
	}
	t.AppendAsync(ctx, storage, partition, []commitlog.Record{record(&m)}, ao, func(first int64, err error) {
		done(Position{Topic: topicName, Storage: storage, Partition: partition, Offset: first}, err)
	})
}

func place(t *topic.Topic, m *Message, opts *ProduceOptions) (storage, partition int, err error) {
	doc := t.Document()
	if opts == nil || opts.Partition == nil {
		storage, partition = t.Route(m.Key)
		return storage, partition, nil
	}
	storage, partition = doc.Produce, *opts.Partition
	if n := doc.Storage[storage].Partitions; partition < 0 || partition >= n {
		return 0, 0, fmt.Errorf("topic %q has partitions 0 to %d; %d is out of range: %w", doc.Name, n-1, partition, ErrInvalid)
	}
	return storage, partition, nil
}
