package peer

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/measure"
)

const (
	topicName = "bench"
	// Old segments are used again once so much is kept, as in a log that has run for a while.
	keepBytes = 160 << 20
)

// ringfenceStore is one partition of a storage topic in a directory.
type ringfenceStore struct {
	log   *commitlog.Log
	topic *commitlog.Topic
}

func openRingfence(ctx context.Context, o Options) (Store, error) {
	c := commitlog.TopicConfig{Partitions: 1}
	if !o.KeepAll {
		c.RetentionBytes = keepBytes
	}
	log, topic, err := OpenTopic(ctx, o, c)
	if err != nil {
		return nil, err
	}
	return &ringfenceStore{log: log, topic: topic}, nil
}

// OpenTopic opens the log in o.Dir and makes or finds the benchmark's topic.
func OpenTopic(ctx context.Context, o Options, c commitlog.TopicConfig) (*commitlog.Log, *commitlog.Topic, error) {
	c.Name = topicName
	log, err := filelog.Open(ctx, filelog.Config{Dir: o.Dir, Options: driver.Options{Durability: driver.Durability(o.Durability)}})
	if err != nil {
		return nil, nil, err
	}
	if err := log.CreateTopic(ctx, c); err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	topic, err := log.Topic(ctx, c.Name)
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	return log, topic, nil
}

func (s *ringfenceStore) Appender() (Append, error) {
	var records []commitlog.Record
	return func(ctx context.Context, values [][]byte) error {
		records = records[:0]
		for _, v := range values {
			records = append(records, commitlog.Record{Value: v})
		}
		_, err := s.topic.Append(ctx, 0, records, nil)
		return err
	}, nil
}

// Stream appends asynchronously.
func (s *ringfenceStore) Stream(ctx context.Context, value []byte, window int, stop func() bool) (acked int64, err error) {
	records := []commitlog.Record{{Value: value}}
	w := measure.NewWindow(window)
	done := func(_ int64, err error) { w.Leave(err) }
	return w.Fill(func(int) bool { return !stop() }, func(int) { s.topic.AppendAsync(ctx, 0, records, nil, done) })
}

// Scan reads partition 0.
func (s *ringfenceStore) Scan(ctx context.Context, n int64) (records, bytes int64, err error) {
	return ScanPartition(ctx, s.topic, 0, n)
}

// ScanPartition reads n records of a partition into a buffer that is used again and again.
func ScanPartition(ctx context.Context, topic *commitlog.Topic, partition int, n int64) (records, bytes int64, err error) {
	bounds, err := topic.Bounds(ctx, partition)
	if err != nil {
		return 0, 0, err
	}
	opts := &commitlog.ReadOptions{MaxBytes: 256 << 10, Buf: make([]byte, 0, 512<<10)}
	var recs []commitlog.Record
	for offset := bounds.First; records < n; {
		recs, offset, err = topic.Read(ctx, partition, offset, recs[:0], opts)
		if err != nil {
			return records, bytes, err
		}
		if len(recs) == 0 {
			return records, bytes, fmt.Errorf("partition %d ended after %d of %d records", partition, records, n)
		}
		for i := range recs {
			bytes += int64(len(recs[i].Value))
		}
		records += int64(len(recs))
	}
	return records, bytes, nil
}

func (s *ringfenceStore) Close() error { return s.log.Close() }
