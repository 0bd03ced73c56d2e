package peer

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ringfence/ringfence/internal/script"
)

// The stream of the benchmarks, and its only subject.
const (
	natsStreamName = "bench"
	NATSSubject    = "bench.one"
)

// natsStore is a JetStream stream with a file store in an embedded server.
type natsStore struct{ stream jetstream.JetStream }

// StartNATS starts a server with JetStream in dir, until the script ends; port -1 picks a free one, 0 listens
// nowhere. Without syncAlways it syncs every two minutes, its default.
func StartNATS(life *script.Script, dir string, syncAlways bool, port int) *server.Server {
	s := must(server.NewServer(&server.Options{
		JetStream:         true,
		StoreDir:          dir,
		SyncAlways:        syncAlways,
		JetStreamMaxStore: 64 << 30,
		Host:              "127.0.0.1",
		Port:              port,
		DontListen:        port == 0,
		NoLog:             true,
		NoSigs:            true,
	}))
	s.Start()
	life.Later(func() error { s.Shutdown(); s.WaitForShutdown(); return nil })
	if !s.ReadyForConnections(30 * time.Second) {
		check(errors.New("the embedded NATS server was not ready within 30 s"))
	}
	return s
}

// ConnectNATS connects to a server, until the script ends, and makes or finds the stream of the benchmarks.
func ConnectNATS(ctx context.Context, s *script.Script, url string, opts ...nats.Option) jetstream.JetStream {
	conn := must(nats.Connect(url, opts...))
	s.Later(func() error { conn.Close(); return nil })
	js := must(jetstream.New(conn))
	must(js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: natsStreamName, Subjects: []string{NATSSubject}, Storage: jetstream.FileStorage}))
	return js
}

// ConsumeNATS hands all values to use, in order, through an ordered consumer, which is the client's fastest way,
// until use says that it has enough. It calls begun when it has begun.
func ConsumeNATS(ctx context.Context, js jetstream.JetStream, begun func(), use func(value []byte) (enough bool)) {
	c := must(js.OrderedConsumer(ctx, natsStreamName, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}))
	done, over := make(chan struct{}), false
	consuming := must(c.Consume(func(m jetstream.Msg) {
		if !over && use(m.Data()) {
			over = true
			close(done)
		}
	}))
	begun()
	select {
	case <-done:
	case <-ctx.Done():
	}
	consuming.Stop()
	<-consuming.Closed()
	check(ctx.Err())
}

func openNATS(ctx context.Context, life *script.Script, o Options) Store {
	return &natsStore{ConnectNATS(ctx, life, "", nats.InProcessServer(StartNATS(life, o.Dir, true, 0)))}
}

// Appender publishes and waits for the ack. Several values go out together and are waited for.
func (s *natsStore) Appender() Append {
	futures := make([]jetstream.PubAckFuture, 0, 128)
	return func(ctx context.Context, values [][]byte) {
		if len(values) == 1 {
			must(s.stream.Publish(ctx, NATSSubject, values[0]))
			return
		}
		futures = futures[:0]
		for _, v := range values {
			futures = append(futures, must(s.stream.PublishAsync(NATSSubject, v)))
		}
		for _, f := range futures {
			select {
			case <-f.Ok():
			case err := <-f.Err():
				check(err)
			case <-ctx.Done():
				check(ctx.Err())
			}
		}
	}
}

// Scan reads through an ordered consumer.
func (s *natsStore) Scan(ctx context.Context, n int64) (records, bytes int64) {
	ConsumeNATS(ctx, s.stream, func() {}, func(value []byte) bool {
		bytes += int64(len(value))
		records++
		return records == n
	})
	return records, bytes
}
