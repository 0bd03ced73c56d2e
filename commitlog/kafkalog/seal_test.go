package kafkalog_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
)

// Batches that wait in the broker, behind one that is being flushed, must be below the end of a seal
// or refused. They wait long when they are large and the producers many.
func TestASealHoldsAgainstAppendsThatWaitInTheBroker(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Flush = true
	// Each has a connection of its own: requests of one wait for each other.
	logs := make([]*commitlog.Log, 12)
	for i := range logs {
		logs[i] = open(t, cfg)
		defer logs[i].Close()
	}
	sealer := open(t, cfg)
	defer sealer.Close()
	for round := range 6 {
		sealUnderLoad(t, sealer, logs, fmt.Sprint("t", round))
	}
}

func sealUnderLoad(t *testing.T, sealer *commitlog.Log, logs []*commitlog.Log, name string) {
	t.Helper()
	if err := sealer.CreateTopic(t.Context(), commitlog.TopicConfig{Name: name, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	at := func(l *commitlog.Log) *commitlog.Topic {
		topic, err := l.Topic(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return topic
	}
	last := make([]int64, len(logs))
	begun := make(chan struct{}, len(logs))
	var writers sync.WaitGroup
	for i, l := range logs {
		topic := at(l)
		writers.Go(func() {
			defer topic.Close()
			for n := 0; ; n++ {
				first, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: make([]byte, 200<<10)}}, nil)
				if n == 15 || err != nil && n < 15 {
					begun <- struct{}{}
				}
				if err != nil {
					if !errors.Is(err, commitlog.ErrSealed) {
						t.Errorf("writer %d: %v", i, err)
					}
					return
				}
				last[i] = first
			}
		})
	}
	for range logs {
		<-begun
	}
	topic := at(sealer)
	defer topic.Close()
	ends, err := topic.Seal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	writers.Wait()
	for i, offset := range last {
		if offset >= ends[0] {
			t.Errorf("writer %d was acked at %d; the topic was sealed at %d", i, offset, ends[0])
		}
	}
}
