package compare

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/internal/measure"
)

// topicName is the topic and the group of the front door.
const topicName = "bench"

// openFrontDoor opens a client and its topic of one partition.
func (t *task) openFrontDoor(ctx context.Context) (*ringfence.Client, error) {
	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: t.Dir, Durability: ringfence.OS})
	if err != nil {
		return nil, err
	}
	if err := rf.EnsureTopic(ctx, topicName, ringfence.TopicConfig{Partitions: 1}); err != nil {
		return nil, errors.Join(err, rf.Close())
	}
	return rf, nil
}

func (t *task) openNATS(ctx context.Context) (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect(t.URL)
	if err != nil {
		return nil, nil, err
	}
	js, err := peer.NATSStream(ctx, conn)
	if err != nil {
		conn.Close()
	}
	return conn, js, err
}

// serveJob is the server process of NATS.
type serveJob struct{ task }

func (j *serveJob) Run(_ context.Context, t *harness.Talk) error {
	s, err := peer.StartNATS(j.Dir, false, -1)
	if err != nil {
		return err
	}
	defer s.Shutdown()
	err = t.Say(answer{URL: s.ClientURL()})
	t.Hear()
	return err
}

// producer appends one value after another and waits for each ack; end closes it, when all were consumed.
func (t *task) producer(ctx context.Context) (add func([]byte) error, end func() error, err error) {
	if t.Peer == "nats" {
		conn, js, err := t.openNATS(ctx)
		return func(v []byte) error {
			_, err := js.Publish(ctx, peer.NATSSubject, v)
			return err
		}, func() error { conn.Close(); return nil }, err
	}
	rf, err := t.openFrontDoor(ctx)
	return func(v []byte) error {
		_, err := rf.Produce(ctx, topicName, ringfence.Message{Value: v})
		return err
	}, rf.Close, err
}

// consumeJob is the consuming process: it says when it is ready, and in the end how old the records
// were that came.
type consumeJob struct {
	task
	ages measure.Histogram
}

// arrive takes one value; true when it was the last.
func (j *consumeJob) arrive(value []byte) bool {
	j.ages.Add(time.Duration(history.Now() - int64(binary.LittleEndian.Uint64(value))))
	return j.ages.Count() >= j.Records
}

func (j *consumeJob) Run(ctx context.Context, t *harness.Talk) error {
	consume := j.consumeGroup
	if j.Peer == "nats" {
		consume = j.consumeNATS
	}
	if err := consume(ctx, func() error { return t.Say(answer{}) }); err != nil {
		return err
	}
	return t.Say(&answer{Latency: j.ages})
}

// consumeGroup consumes as a member of a group, with checkpoints and order per key. A record
// of its own, produced before, tells when it owns the partition.
func (j *consumeJob) consumeGroup(ctx context.Context, ready func() error) (err error) {
	rf, err := j.openFrontDoor(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	if _, err := rf.Produce(ctx, topicName, ringfence.Message{Value: []byte("?")}); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var said atomic.Bool
	return rf.Consume(ctx, topicName, topicName, func(_ context.Context, m *ringfence.Message) error {
		switch {
		case len(m.Value) == 1 && said.CompareAndSwap(false, true):
			return ready()
		case len(m.Value) > 1 && j.arrive(m.Value):
			stop()
		}
		return nil
	}, &ringfence.ConsumeOptions{Concurrency: 1})
}

// consumeNATS consumes in order without acks, the quickest way of its client.
func (j *consumeJob) consumeNATS(ctx context.Context, ready func() error) error {
	conn, js, err := j.openNATS(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	c, err := js.OrderedConsumer(ctx, peer.NATSStreamName, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return err
	}
	done := make(chan struct{})
	consuming, err := c.Consume(func(m jetstream.Msg) {
		if j.arrive(m.Data()) {
			close(done)
		}
	})
	if err == nil {
		err = ready()
	}
	if err != nil {
		return err
	}
	<-done
	consuming.Stop()
	<-consuming.Closed()
	return nil
}
