package memlog_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
)

func open(t *testing.T, log *commitlog.Log, c commitlog.TopicConfig) *commitlog.Topic {
	t.Helper()
	c.Name = "t"
	if err := log.CreateTopic(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	topic, err := log.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

func add(t *testing.T, topic *commitlog.Topic, partition int, value string) int64 {
	t.Helper()
	first, err := topic.Append(t.Context(), partition, []commitlog.Record{{Value: []byte(value)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

func first(t *testing.T, topic *commitlog.Topic, partition int) int64 {
	t.Helper()
	b, err := topic.Bounds(context.Background(), partition)
	if err != nil {
		t.Fatal(err)
	}
	return b.First
}

func TestRetentionByAgeStopsAtAHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		topic := open(t, memlog.New(), commitlog.TopicConfig{Partitions: 1, RetentionAgeMillis: 1000})
		for range 4 {
			add(t, topic, 0, "v")
			time.Sleep(400 * time.Millisecond)
		}
		if got := first(t, topic, 0); got != 2 {
			t.Errorf("first offset after 1.6 s is %d; want 2", got)
		}
		if err := topic.Hold(t.Context(), "g", []int64{3}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := first(t, topic, 0); got != 3 {
			t.Errorf("first offset with a hold at 3 is %d", got)
		}
	})
}

func TestForcedRetentionIgnoresHolds(t *testing.T) {
	t.Parallel()
	topic := open(t, memlog.New(), commitlog.TopicConfig{Partitions: 1, RetentionBytes: 10, RetentionForce: true})
	if err := topic.Hold(t.Context(), "g", []int64{0}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		add(t, topic, 0, "12345")
	}
	if got := first(t, topic, 0); got != 3 {
		t.Errorf("first offset %d; want 3", got)
	}
}
