package compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/mirror"
)

const (
	mirrored    = "mirrored"
	mirrorBytes = 192 << 20 // of the topic that is mirrored
)

// directory holds a topic that is copied to Kafka.
type directory struct {
	t       *topics
	path    string
	source  *ringfence.Client
	records int64
}

// fill fills a topic in a temporary directory.
func (d *directory) fill(ctx context.Context) (err error) {
	t := d.t
	d.records = mirrorBytes / int64(t.Size+20)
	if d.path, err = t.folder(); err != nil {
		return fmt.Errorf("a directory to copy from: %w", err)
	}
	if d.source, err = ringfence.Open(ctx, ringfence.Config{Dir: d.path + "/from"}); err != nil {
		return err
	}
	if err := d.source.EnsureTopic(ctx, mirrored, ringfence.TopicConfig{Partitions: kafkaPartitions}); err != nil {
		return err
	}
	w := measure.NewWindow(1 << 20)
	_, err = w.Fill(func(n int) bool { return int64(n) < d.records }, func(int) {
		d.source.ProduceAsync(ctx, mirrored, ringfence.Message{Value: t.value}, nil, func(_ ringfence.Position, err error) { w.Leave(err) })
	})
	return err
}

func (d *directory) remove() {
	if d.source != nil {
		_ = d.source.Close() // it goes
	}
	_ = os.RemoveAll(d.path)
}

// copy mirrors all of the directory to a new topic in Kafka, with the notes of the mirror in another
// directory.
func (d *directory) copy(ctx context.Context) (_ float64, err error) {
	name := fmt.Sprintf("%smirror-%x.", d.t.prefix, rand.Uint32())
	target, err := ringfence.Open(ctx, ringfence.Config{
		Dir: d.path + "/" + name, Log: fmt.Sprintf("kafka://%s?prefix=%s", strings.Join(d.t.Brokers, ","), name),
		Durability: ringfence.OS, // as franz-go's topics
		Backends:   []ringfence.Backend{{Scheme: "kafka", OpenLog: kafkalog.OpenURL}},
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, removeCopies(ctx, target), target.Close()) }()
	m, err := mirror.New(mirror.Config{
		From: mirror.Side{Log: d.source.Log(), Registry: d.source.Registry()}, To: mirror.Side{Log: target.Log(), Registry: target.Registry()},
		Topic: mirrored, Once: true,
	})
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	err = m.Run(ctx)
	took := time.Since(begun)
	if got := m.Progress().Records; err == nil && got != d.records {
		err = fmt.Errorf("%d records were copied, of %d", got, d.records)
	}
	return float64(d.records) / took.Seconds(), err
}

// removeCopies deletes the topics of a target; they are in no catalog.
func removeCopies(ctx context.Context, target *ringfence.Client) error {
	list, err := target.Log().Topics(ctx)
	for _, c := range list {
		err = errors.Join(err, target.Log().DeleteTopic(ctx, c.Name))
	}
	return err
}
