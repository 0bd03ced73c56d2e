package compare

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/commitlog"
)

// produceAtRate is the producing process.
func produceAtRate(ctx context.Context, j job, say func(answer) error) (err error) {
	// The last ack may come after the last record was consumed and the parent is done with us.
	add, done, err := openProducer(context.WithoutCancel(ctx), j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := say(answer{Ready: true}); err != nil {
		return err
	}
	value, stamp := stamped(j.Size)
	if err := pace(ctx, j, func() error { stamp(); return add(value) }); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// openProducer opens what appends one value and waits for its ack.
func openProducer(ctx context.Context, j job) (add func([]byte) error, done func() error, err error) {
	switch j.Peer {
	case peer.Ringfence:
		rf, err := openFrontDoor(ctx, j)
		if err != nil {
			return nil, nil, err
		}
		return func(v []byte) error {
			_, err := rf.Produce(ctx, frontTopic, ringfence.Message{Value: v})
			return err
		}, rf.Close, nil
	case "nats":
		conn, err := nats.Connect(j.URL)
		if err != nil {
			return nil, nil, err
		}
		js, err := peer.NATSStream(ctx, conn)
		if err != nil {
			conn.Close()
			return nil, nil, err
		}
		publish := func(v []byte) error {
			_, err := js.Publish(ctx, peer.NATSSubject, v)
			return err
		}
		return publish, func() error { conn.Close(); return nil }, nil
	}
	log, topic, err := openHandOver(ctx, j)
	if err != nil {
		return nil, nil, err
	}
	return func(v []byte) error {
		_, err := topic.Append(ctx, 0, []commitlog.Record{{Value: v}}, nil)
		return err
	}, log.Close, nil
}

func openHandOver(ctx context.Context, j job) (*commitlog.Log, *commitlog.Topic, error) {
	return peer.OpenTopic(ctx, peer.Options{Dir: j.Dir, Durability: j.Durability}, commitlog.TopicConfig{Partitions: 1})
}

// consumeAndTime is the consuming process.
func consumeAndTime(ctx context.Context, j job, say func(answer) error) error {
	w := &stopwatch{want: j.Records}
	var err error
	switch j.Peer {
	case "nats":
		err = consumeNATS(ctx, j, w, say)
	case peer.Ringfence:
		err = consumeFrontDoor(ctx, j, w, say)
	default:
		err = consumeLog(ctx, j, w, say)
	}
	if err != nil {
		return err
	}
	return say(w.answer())
}

// consumeLog follows partition 0.
func consumeLog(ctx context.Context, j job, w *stopwatch, say func(answer) error) (err error) {
	log, topic, err := openHandOver(ctx, j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := say(answer{Ready: true}); err != nil {
		return err
	}
	opts := &commitlog.ReadOptions{Buf: make([]byte, 0, 512<<10)}
	var recs []commitlog.Record
	for offset := int64(0); ; {
		if err := topic.Wait(ctx, 0, offset); err != nil {
			return err
		}
		if recs, offset, err = topic.Read(ctx, 0, offset, recs[:0], opts); err != nil {
			return err
		}
		for i := range recs {
			if w.arrive(recs[i].Value) {
				return nil
			}
		}
	}
}

// serveNATS is the server process.
func serveNATS(ctx context.Context, j job, say func(answer) error) error {
	s, err := peer.StartNATS(j.Dir, j.Durability == peer.Sync, -1)
	if err != nil {
		return err
	}
	defer s.Shutdown()
	if err := say(answer{Ready: true, URL: s.ClientURL()}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// consumeNATS consumes in order without acks, the quickest way of its client.
func consumeNATS(ctx context.Context, j job, w *stopwatch, say func(answer) error) error {
	conn, err := nats.Connect(j.URL)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := peer.NATSStream(ctx, conn)
	if err != nil {
		return err
	}
	c, err := js.OrderedConsumer(ctx, peer.NATSStreamName, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return err
	}
	done := make(chan struct{})
	consuming, err := c.Consume(func(m jetstream.Msg) {
		if w.arrive(m.Data()) {
			close(done)
		}
	})
	if err != nil {
		return err
	}
	if err := say(answer{Ready: true}); err != nil {
		return err
	}
	select {
	case <-done:
		consuming.Stop()
		<-consuming.Closed()
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d messages had come: %w", w.latency.Count(), j.Records, ctx.Err())
	}
}
