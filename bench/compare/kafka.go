package compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/internal/script"
)

const (
	kafkaPartitions = 4
	kafkaBytes      = 256 << 20 // of the topic that is consumed
)

// Kafka compares kafkalog with a bare franz-go program on the same broker in the same run: produce with acks=all, one
// record at a time, each with its own answer; consume everything that is there.
func Kafka(ctx context.Context, s *script.Script, c Config, emit func(*measure.Report)) {
	if len(c.Brokers) == 0 {
		check(errors.New("no brokers: expected -brokers host:port, or RINGFENCE_KAFKA_URL"))
	}
	t := newTopics(ctx, s, c)
	for _, m := range []struct {
		what, own, other string
		turn, peers      func(ctx context.Context, s *script.Script) float64
	}{
		{"kafka produce", "kafkalog", "franz-go", t.produceOwn, t.produceBare},
		{"kafka consume", "kafkalog", "franz-go", t.consumeOwn, t.consumeBare},
	} {
		game := c.contest(m.what, "records/s")
		game.enter(m.own, func(t *measure.Turn) float64 { return m.turn(ctx, t.Script) })
		game.enter(m.other, func(t *measure.Turn) float64 { return m.peers(ctx, t.Script) })
		emit(game.report(c.Rounds, "records of %d bytes, %s, %s", c.Size, measure.Many(kafkaPartitions, "partition"), measure.Many(c.Rounds, "round")))
	}
}

// topics are the two topics of one comparison.
type topics struct {
	Config
	prefix  string
	produce *commitlog.Topic // takes the produced records
	filled  int              // records of the topic that is consumed
	value   []byte
}

// newTopics makes the topics, until the script ends, and fills the one that is consumed.
func newTopics(ctx context.Context, s *script.Script, c Config) *topics {
	t := &topics{Config: c, prefix: fmt.Sprintf("bench-%x.", rand.Uint32()), value: payload(c.Size)}
	log := t.open(ctx, s)
	made := func(name string) *commitlog.Topic {
		check(log.CreateTopic(ctx, commitlog.TopicConfig{Name: name, Partitions: kafkaPartitions}))
		s.Later(func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			return log.DeleteTopic(ctx, name)
		})
		return must(log.Topic(ctx, name))
	}
	t.produce = made("produce")
	t.filled = kafkaBytes / (t.Size + 20) / kafkaPartitions * kafkaPartitions
	w := measure.NewWindow(underWay)
	w.Fill(func(n int) bool { return n < t.filled }, t.append(ctx, made("consume"), w))
	return t
}

func (t *topics) open(ctx context.Context, s *script.Script) *commitlog.Log {
	log := must(kafkalog.Open(ctx, kafkalog.Config{Brokers: t.Brokers, Prefix: t.prefix, Options: driver.Options{Durability: driver.OS}}))
	s.Later(log.Close)
	return log
}

// underWay bounds a produce turn's records without an answer, by more than the clients let be under way.
const underWay = 1 << 22

// produceOwn appends one record after another, without waiting for the answers.
func (t *topics) produceOwn(ctx context.Context, _ *script.Script) float64 {
	w := measure.NewWindow(underWay)
	return w.For(t.Turn, t.append(ctx, t.produce, w))
}

func (t *topics) append(ctx context.Context, topic *commitlog.Topic, w *measure.Window) func(n int) {
	done := func(_ int64, err error) { w.Leave(err) }
	return func(n int) {
		topic.AppendAsync(ctx, n%kafkaPartitions, []commitlog.Record{{Value: t.value}}, nil, done)
	}
}

func (t *topics) client(s *script.Script, opts ...kgo.Opt) *kgo.Client {
	client := must(kgo.NewClient(append(opts, kgo.SeedBrokers(t.Brokers...))...))
	s.Later(func() error { client.Close(); return nil })
	return client
}

// produceBare is what franz-go's documentation recommends for throughput, asynchronous, but as kafkalog does: with
// partitions chosen by hand, without compression, and with room for as many records.
func (t *topics) produceBare(ctx context.Context, s *script.Script) float64 {
	client := t.client(s, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(kafkalog.DefaultBufferBytes/(t.Size+40)), kgo.DefaultProduceTopic(t.prefix+"produce"))
	check(client.Ping(ctx))
	w := measure.NewWindow(underWay)
	done := func(_ *kgo.Record, err error) { w.Leave(err) }
	return w.For(t.Turn, func(n int) {
		client.Produce(ctx, &kgo.Record{Value: t.value, Partition: int32(n % kafkaPartitions)}, done)
	})
}

// consumeOwn reads every partition with a reader of its own.
func (t *topics) consumeOwn(ctx context.Context, s *script.Script) float64 {
	topic := must(t.open(ctx, s).Topic(ctx, "consume"))
	var got atomic.Int64
	begun := time.Now()
	script.Together(kafkaPartitions, func(p int) {
		r := topic.NewReader(p, 0, &commitlog.ReaderOptions{Reuse: true})
		for r.Offset() < int64(t.filled/kafkaPartitions) {
			got.Add(int64(len(must(r.Next(ctx)))))
		}
	})
	return t.consumed(got.Load(), time.Since(begun))
}

func (t *topics) consumed(got int64, took time.Duration) float64 {
	if got != int64(t.filled) {
		check(fmt.Errorf("%d records came, of %d", got, t.filled))
	}
	return float64(got) / took.Seconds()
}

// consumeBare polls the same partitions, assigned by hand.
func (t *topics) consumeBare(ctx context.Context, s *script.Script) float64 {
	begun := time.Now()
	from := map[int32]kgo.Offset{}
	for p := range kafkaPartitions {
		from[int32(p)] = kgo.NewOffset().AtStart()
	}
	client := t.client(s, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.prefix + "consume": from}))
	var got int64
	for got < int64(t.filled) {
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(*kgo.Record) { got++ })
	}
	return t.consumed(got, time.Since(begun))
}
