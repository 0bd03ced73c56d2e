package kafkalog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/internal/testserver"
)

// onCluster is a log of its own on the shared cluster of three brokers.
func onCluster(t testing.TB) kafkalog.Config {
	t.Helper()
	u, err := url.Parse(testserver.URL(t, "kafka_cluster"))
	if err != nil {
		t.Fatal(err)
	}
	c := kafkalog.Config{Brokers: strings.Split(u.Host, ","), Prefix: fmt.Sprintf("test-%x.", rand.Uint32())}
	t.Cleanup(func() { removeTopics(t, c) })
	return c
}

// Brokers learn of a seal one after another: an append that meets one between is stored or refused
// for the seal, and what was acked is below the end.
func TestAppendsOnAClusterMeetASealInGoodOrder(t *testing.T) {
	t.Parallel()
	cfg := onCluster(t)
	sealer, writer := open(t, cfg), open(t, cfg)
	defer sealer.Close()
	defer writer.Close()
	const partitions = 6
	var acked, refused atomic.Int64
	for round := range 4 {
		name := fmt.Sprint("t", round)
		if err := sealer.CreateTopic(t.Context(), commitlog.TopicConfig{Name: name, Partitions: partitions}); err != nil {
			t.Fatal(err)
		}
		sealed, written := topicOf(t, sealer, name), topicOf(t, writer, name)
		var highest [partitions]atomic.Int64
		var begun, writers sync.WaitGroup
		for p := range partitions {
			begun.Add(1)
			writers.Go(func() {
				for n := 0; ; n++ {
					first, err := written.Append(context.Background(), p, []commitlog.Record{{Value: []byte("v")}}, nil)
					if n == 3 || err != nil && n < 3 {
						begun.Done()
					}
					if err != nil {
						if !errors.Is(err, commitlog.ErrSealed) {
							t.Errorf("%s, append %d to partition %d: %v; expected that it is stored or refused for the seal", name, n, p, err)
						}
						refused.Add(1)
						return
					}
					acked.Add(1)
					highest[p].Store(first + 1)
				}
			})
		}
		begun.Wait()
		ends, err := sealed.Seal(t.Context())
		writers.Wait()
		if err != nil {
			t.Fatal(err)
		}
		for p, end := range ends {
			if high := highest[p].Load(); high > end {
				t.Errorf("%s partition %d was sealed at %d, and a record was acked at %d", name, p, end, high-1)
			}
		}
	}
	t.Logf("%d appends stored, %d refused for the seal", acked.Load(), refused.Load())
}

func topicOf(t *testing.T, l *commitlog.Log, name string) *commitlog.Topic {
	t.Helper()
	topic, err := l.Topic(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = topic.Close() })
	return topic
}

// Brokers learn of a topic one after another.
func TestATopicIsThereOnceItWasMade(t *testing.T) {
	t.Parallel()
	cfg := onCluster(t)
	maker, other := open(t, cfg), open(t, cfg)
	defer maker.Close()
	defer other.Close()
	for i := range 10 {
		name := fmt.Sprint("t", i)
		if err := maker.CreateTopic(t.Context(), commitlog.TopicConfig{Name: name, Partitions: 6}); err != nil {
			t.Fatal(err)
		}
		topic, err := other.Topic(t.Context(), name)
		if err != nil {
			t.Fatalf("opened by another client: %v", err)
		}
		if _, err := topic.Bounds(t.Context(), i%6); err != nil {
			t.Errorf("its bounds: %v", err)
		}
		if err := topic.Close(); err != nil {
			t.Error(err)
		}
	}
}
