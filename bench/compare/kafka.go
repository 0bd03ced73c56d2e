package compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/internal/measure"
)

const (
	kafkaPartitions = 4
	kafkaBytes      = 256 << 20 // of the topic that is consumed
)

// Kafka compares kafkalog with a bare franz-go program that does the same work on the same
// broker in the same run: produce with acks=all, one record at a time, each with its own answer;
// consume everything that is there. And it measures how fast a directory is mirrored to Kafka, of
// the rate at which kafkalog produces.
func Kafka(ctx context.Context, c Config, emit func(*measure.Report) error) error {
	if len(c.Brokers) == 0 {
		return errors.New("no brokers: expected -brokers host:port, or RINGFENCE_KAFKA_URL")
	}
	t, err := newTopics(ctx, c)
	if err != nil {
		return err
	}
	defer t.remove()
	if err := t.fill(ctx); err != nil {
		return err
	}
	d := &directory{t: t}
	defer d.remove()
	if err := d.fill(ctx); err != nil {
		return err
	}
	for _, m := range []struct {
		what, own, other string
		turn, peers      func(context.Context) (float64, error)
	}{
		{"kafka produce", "kafkalog", "franz-go", t.produceOwn, t.produceBare},
		{"kafka consume", "kafkalog", "franz-go", t.consumeOwn, t.consumeBare},
		{"mirror", "mirror of a directory", "kafkalog", d.copy, t.produceOwn},
	} {
		game := c.contest(m.what, "records/s")
		game.enter(m.own, func(*measure.Histogram) (float64, error) { return m.turn(ctx) })
		game.enter(m.other, func(*measure.Histogram) (float64, error) { return m.peers(ctx) })
		r, err := game.report(c.Rounds, "records of %d bytes, %s, %s", c.Size, measure.Many(kafkaPartitions, "partition"), measure.Many(c.Rounds, "round"))
		if err != nil {
			return fmt.Errorf("%s: %w", m.what, err)
		}
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

// topics are the two topics of one comparison, and the log that made them.
type topics struct {
	Config
	prefix  string
	log     *commitlog.Log
	produce *commitlog.Topic // takes the produced records
	consume *commitlog.Topic // is filled once
	filled  int
	value   []byte
}

func newTopics(ctx context.Context, c Config) (*topics, error) {
	t := &topics{Config: c, prefix: fmt.Sprintf("bench-%x.", rand.Uint32()), value: payload(c.Size)}
	var err error
	if t.log, err = t.open(ctx); err != nil {
		return nil, err
	}
	for name, topic := range map[string]**commitlog.Topic{"produce": &t.produce, "consume": &t.consume} {
		if err := t.log.CreateTopic(ctx, commitlog.TopicConfig{Name: name, Partitions: kafkaPartitions}); err != nil {
			return nil, err
		}
		if *topic, err = t.log.Topic(ctx, name); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *topics) open(ctx context.Context) (*commitlog.Log, error) {
	return kafkalog.Open(ctx, kafkalog.Config{Brokers: t.Brokers, Prefix: t.prefix, Options: driver.Options{Durability: driver.OS}})
}

// remove deletes the topics.
func (t *topics) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, name := range []string{"produce", "consume"} {
		if err := t.log.DeleteTopic(ctx, name); err != nil {
			fmt.Fprintln(t.Progress, "clean up:", err)
		}
	}
	if err := t.log.Close(); err != nil {
		fmt.Fprintln(t.Progress, "clean up:", err)
	}
}

// underWay bounds the records of a produce turn that have no answer yet: by more than what the clients
// let be under way.
const underWay = 1 << 22

// produceOwn appends one record after another, without waiting for the answers.
func (t *topics) produceOwn(ctx context.Context) (float64, error) {
	w := measure.NewWindow(underWay)
	return w.For(t.Turn, t.append(ctx, t.produce, w))
}

func (t *topics) append(ctx context.Context, topic *commitlog.Topic, w *measure.Window) func(n int) {
	done := func(_ int64, err error) { w.Leave(err) }
	return func(n int) {
		topic.AppendAsync(ctx, n%kafkaPartitions, []commitlog.Record{{Value: t.value}}, nil, done)
	}
}

func (t *topics) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(t.Brokers...))...)
}

// produceBare is what franz-go's documentation recommends for throughput: asynchronous, with the
// defaults, but with partitions chosen by hand, as kafkalog does, without compression, and with
// room for as many records as kafkalog buffers.
func (t *topics) produceBare(ctx context.Context) (float64, error) {
	client, err := t.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(kafkalog.DefaultBufferBytes/(t.Size+40)), kgo.DefaultProduceTopic(t.prefix+"produce"))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return 0, err
	}
	w := measure.NewWindow(underWay)
	done := func(_ *kgo.Record, err error) { w.Leave(err) }
	return w.For(t.Turn, func(n int) {
		client.Produce(ctx, &kgo.Record{Value: t.value, Partition: int32(n % kafkaPartitions)}, done)
	})
}

// fill stores what is consumed later.
func (t *topics) fill(ctx context.Context) error {
	t.filled = kafkaBytes / (t.Size + 20) / kafkaPartitions * kafkaPartitions
	w := measure.NewWindow(underWay)
	_, err := w.Fill(func(n int) bool { return n < t.filled }, t.append(ctx, t.consume, w))
	return err
}

// consumeOwn reads every partition with a reader of its own.
func (t *topics) consumeOwn(ctx context.Context) (float64, error) {
	log, err := t.open(ctx)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	topic, err := log.Topic(ctx, "consume")
	if err != nil {
		return 0, err
	}
	var wg sync.WaitGroup
	var got atomic.Int64
	errs := make([]error, kafkaPartitions)
	begun := time.Now()
	for p := range kafkaPartitions {
		wg.Go(func() {
			r := topic.NewReader(p, 0, &commitlog.ReaderOptions{Reuse: true})
			for r.Offset() < int64(t.filled/kafkaPartitions) {
				recs, err := r.Next(ctx)
				if err != nil {
					errs[p] = err
					return
				}
				got.Add(int64(len(recs)))
			}
		})
	}
	wg.Wait()
	took := time.Since(begun)
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	return t.consumed(got.Load(), took)
}

func (t *topics) consumed(got int64, took time.Duration) (float64, error) {
	if got != int64(t.filled) {
		return 0, fmt.Errorf("%d records came, of %d", got, t.filled)
	}
	return float64(got) / took.Seconds(), nil
}

// consumeBare polls the same partitions, assigned by hand.
func (t *topics) consumeBare(ctx context.Context) (float64, error) {
	begun := time.Now()
	from := map[int32]kgo.Offset{}
	for p := range kafkaPartitions {
		from[int32(p)] = kgo.NewOffset().AtStart()
	}
	client, err := t.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.prefix + "consume": from}))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	var got int64
	for got < int64(t.filled) {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, err
		}
		fetches.EachRecord(func(*kgo.Record) { got++ })
	}
	return t.consumed(got, time.Since(begun))
}
