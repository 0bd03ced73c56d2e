package peer

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The stream of the benchmarks, and its only subject.
const (
	NATSStreamName = "bench"
	NATSSubject    = "bench.one"
)

// natsStore is a JetStream stream with a file store in an embedded server.
type natsStore struct {
	server *server.Server
	conn   *nats.Conn
	stream jetstream.JetStream
}

// StartNATS starts a server with JetStream in dir; port -1 picks a free one, 0 listens nowhere.
// Without syncAlways it syncs every two minutes, its default.
func StartNATS(dir string, syncAlways bool, port int) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{
		JetStream:         true,
		StoreDir:          dir,
		SyncAlways:        syncAlways,
		JetStreamMaxStore: 64 << 30,
		Host:              "127.0.0.1",
		Port:              port,
		DontListen:        port == 0,
		NoLog:             true,
		NoSigs:            true,
	})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		s.Shutdown()
		return nil, errors.New("the embedded NATS server was not ready within 30 s")
	}
	return s, nil
}

// NATSStream makes the stream that the benchmarks use, or finds it.
func NATSStream(ctx context.Context, conn *nats.Conn, opts ...jetstream.JetStreamOpt) (jetstream.JetStream, error) {
	js, err := jetstream.New(conn, opts...)
	if err != nil {
		return nil, err
	}
	_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: NATSStreamName, Subjects: []string{NATSSubject}, Storage: jetstream.FileStorage})
	return js, err
}

func openNATS(ctx context.Context, o Options) (_ Store, err error) {
	s := &natsStore{}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.server, err = StartNATS(o.Dir, o.Durability == Sync, 0); err != nil {
		return nil, err
	}
	if s.conn, err = nats.Connect("", nats.InProcessServer(s.server)); err != nil {
		return nil, err
	}
	if s.stream, err = NATSStream(ctx, s.conn); err != nil {
		return nil, err
	}
	return s, nil
}

// Appender publishes and waits for the ack. Several values go out together and are waited for.
func (s *natsStore) Appender() (Append, error) {
	futures := make([]jetstream.PubAckFuture, 0, 128)
	return func(ctx context.Context, values [][]byte) error {
		if len(values) == 1 {
			_, err := s.stream.Publish(ctx, NATSSubject, values[0])
			return err
		}
		futures = futures[:0]
		for _, v := range values {
			f, err := s.stream.PublishAsync(NATSSubject, v)
			if err != nil {
				return err
			}
			futures = append(futures, f)
		}
		for _, f := range futures {
			select {
			case <-f.Ok():
			case err := <-f.Err():
				return err
			}
		}
		return nil
	}, nil
}

// Stream uses the client's own asynchronous publishing with a bounded number of pending acks, which are
// waited for in order.
func (s *natsStore) Stream(ctx context.Context, value []byte, window int, stop func() bool) (acked int64, err error) {
	js, err := jetstream.New(s.conn, jetstream.WithPublishAsyncMaxPending(window))
	if err != nil {
		return 0, err
	}
	pending := make(chan jetstream.PubAckFuture, window)
	var refused error
	var waiting sync.WaitGroup
	waiting.Go(func() { // joined below
		for f := range pending {
			select {
			case <-f.Ok():
				acked++
			case err := <-f.Err():
				refused = cmp.Or(refused, err)
			case <-ctx.Done():
				refused = cmp.Or(refused, ctx.Err())
			}
		}
	})
	for err == nil && !stop() {
		var f jetstream.PubAckFuture
		if f, err = js.PublishAsync(NATSSubject, value, jetstream.WithStallWait(time.Minute)); err == nil {
			pending <- f
		}
	}
	close(pending)
	waiting.Wait()
	return acked, errors.Join(err, refused)
}

// Scan reads through an ordered consumer, the client's fastest way.
func (s *natsStore) Scan(ctx context.Context, n int64) (records, bytes int64, err error) {
	c, err := s.stream.OrderedConsumer(ctx, NATSStreamName, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return 0, 0, err
	}
	done := make(chan struct{})
	consuming, err := c.Consume(func(m jetstream.Msg) {
		if records == n {
			return // more than was asked for
		}
		bytes += int64(len(m.Data()))
		if records++; records == n {
			close(done)
		}
	})
	if err != nil {
		return 0, 0, err
	}
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	consuming.Stop()
	<-consuming.Closed()
	return records, bytes, err
}

func (s *natsStore) stop() {
	if s.conn != nil {
		s.conn.Close()
	}
	if s.server != nil {
		s.server.Shutdown()
		s.server.WaitForShutdown()
	}
}

func (s *natsStore) Close() error {
	s.stop()
	return nil
}
