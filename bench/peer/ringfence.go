package peer

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/script"
)

const (
	topicName = "bench"
	// Old segments are used again once so much is kept, as in a log that has run for a while.
	keepBytes = 160 << 20
)

// ringfenceStore is one partition of a storage topic in a directory.
type ringfenceStore struct{ topic *commitlog.Topic }

func openRingfence(ctx context.Context, s *script.Script, o Options) Store {
	c := commitlog.TopicConfig{Name: topicName, Partitions: 1}
	if !o.KeepAll {
		c.RetentionBytes = keepBytes
	}
	log := must(filelog.Open(ctx, filelog.Config{Dir: o.Dir, Options: driver.Options{Durability: driver.Sync}}))
	s.Later(log.Close)
	check(log.CreateTopic(ctx, c))
	return &ringfenceStore{must(log.Topic(ctx, c.Name))}
}

func (s *ringfenceStore) Appender() Append {
	var records []commitlog.Record
	return func(ctx context.Context, values [][]byte) {
		records = records[:0]
		for _, v := range values {
			records = append(records, commitlog.Record{Value: v})
		}
		must(s.topic.Append(ctx, 0, records, nil))
	}
}

// Scan reads records of the partition into a buffer that is used again and again.
func (s *ringfenceStore) Scan(ctx context.Context, n int64) (records, bytes int64) {
	opts := &commitlog.ReadOptions{MaxBytes: 256 << 10, Buf: make([]byte, 0, 512<<10)}
	var recs []commitlog.Record
	var err error
	for offset := must(s.topic.Bounds(ctx, 0)).First; records < n; {
		recs, offset, err = s.topic.Read(ctx, 0, offset, recs[:0], opts)
		if err == nil && len(recs) == 0 {
			err = fmt.Errorf("the partition ended after %d of %d records", records, n)
		}
		check(err)
		for i := range recs {
			bytes += int64(len(recs[i].Value))
		}
		records += int64(len(recs))
	}
	return records, bytes
}
