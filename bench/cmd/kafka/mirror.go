package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/bench/compare"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/mirror"
)

// needMirror is how much of kafkalog's produce rate a mirror from a directory has to reach.
const needMirror = 0.7

const mirrored = "mirrored"

// directory holds a topic that is copied to Kafka.
type directory struct {
	t       *topics
	path    string
	source  *ringfence.Client
	records int64
}

// newDirectory fills a topic in a temporary directory.
func newDirectory(ctx context.Context, t *topics) (_ *directory, err error) {
	d := &directory{t: t, records: int64(t.mirror<<20/(t.size+20)) / 64 * 64}
	if d.path, err = os.MkdirTemp("", "ringfence-bench-"); err != nil {
		return nil, fmt.Errorf("a directory to copy from: %w", err)
	}
	if d.source, err = ringfence.Open(ctx, ringfence.Config{Dir: d.path + "/from"}); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	if err := d.source.EnsureTopic(ctx, mirrored, ringfence.TopicConfig{Partitions: t.partitions}); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	w := measure.NewWindow(1 << 20)
	_, err = w.Fill(func(n int) bool { return int64(n) < d.records }, func(int) {
		d.source.ProduceAsync(ctx, mirrored, ringfence.Message{Value: t.value}, nil, func(_ ringfence.Position, err error) { w.Leave(err) })
	})
	if err != nil {
		return nil, errors.Join(err, d.remove())
	}
	return d, nil
}

func (d *directory) remove() error {
	var err error
	if d.source != nil {
		err = d.source.Close()
	}
	return errors.Join(err, os.RemoveAll(d.path))
}

// copy mirrors all of the directory to a new topic in Kafka, with the notes of the mirror in another
// directory, and tells on stderr how far it is.
func (d *directory) copy(ctx context.Context) (_ float64, err error) {
	name := fmt.Sprintf("%smirror-%x.", d.t.prefix, rand.Uint32())
	target, err := ringfence.Open(ctx, ringfence.Config{
		Dir: d.path + "/" + name, Log: fmt.Sprintf("kafka://%s?prefix=%s", strings.Join(d.t.brokers, ","), name),
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
	over := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() { showMirror(m, over) }) // joined below
	begun := time.Now()
	err = m.Run(ctx)
	took := time.Since(begun)
	close(over)
	shown.Wait()
	if got := m.Progress().Records; err == nil && got != d.records {
		err = fmt.Errorf("%d records were copied, of %d", got, d.records)
	}
	return float64(d.records) / took.Seconds(), err
}

func showMirror(m *mirror.Mirror, over <-chan struct{}) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
			p := m.Progress()
			fmt.Fprintf(os.Stderr, "mirror: %d records copied, %d behind\n", p.Records, p.Behind)
		}
	}
}

// removeCopies deletes the topics of a target; they are in no catalog.
func removeCopies(ctx context.Context, target *ringfence.Client) error {
	list, err := target.Log().Topics(ctx)
	for _, c := range list {
		err = errors.Join(err, target.Log().DeleteTopic(ctx, c.Name))
	}
	return err
}

// compareMirror measures how fast a directory is copied to Kafka, beside how fast kafkalog takes the
// same records one by one.
func compareMirror(ctx context.Context, t *topics) (r compare.Report, err error) {
	d, err := newDirectory(ctx, t)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	var game measure.Contest
	game.Add(measure.Entry{Name: "mirror", Turn: func(*measure.Histogram) (float64, error) { return d.copy(ctx) }})
	game.Add(measure.Entry{Name: "kafkalog", Turn: func(*measure.Histogram) (float64, error) { return t.produceOwn(ctx) }})
	if err := game.Run(t.rounds); err != nil {
		return r, err
	}
	title := fmt.Sprintf("mirror of a directory, of produce: records of %d bytes, %d partitions", t.size, t.partitions)
	return compare.NewReport(title, "records/s", false, game.Rows(), map[string]float64{"kafkalog": needMirror}, nil), nil
}
