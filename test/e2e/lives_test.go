package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/internal/testlog"
)

// Another process deletes a topic and makes it anew, in another shape. A client that has it open goes
// on with the new one, and puts each key where all others do.
func TestAClientGoesOnWithTheNextTopicOfAName(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"produce", "async", "describe", "consume"} {
		s := newStores()
		mine, other := s.open(t), s.open(t)
		must := func(err error) {
			t.Helper()
			must(t, err)
		}
		must(mine.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 4}))
		produce(t, mine, "orders", 0, 10, 5)
		before, err := mine.Admin().DescribeTopic(t.Context(), "orders")
		must(err)
		must(other.Admin().DeleteTopic(t.Context(), "orders", nil))
		must(other.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 3, Hash: "fnv1a"}))
		m := ringfence.Message{Key: []byte("k1"), Value: []byte("0")}
		want, err := other.Produce(t.Context(), "orders", m)
		must(err)
		switch how {
		case "async": // one message is told that its topic is gone
			if _, err := produceAsync(t.Context(), mine, m); !errors.Is(err, ringfence.ErrNotFound) {
				t.Errorf("to the topic that is gone: %v; expected NotFound", err)
			}
			at, err := produceAsync(t.Context(), mine, m)
			must(err)
			if at.Partition != want.Partition {
				t.Errorf("a key is in partition %d; %d is that of others", at.Partition, want.Partition)
			}
		case "produce":
			at, err := mine.Produce(t.Context(), "orders", m)
			must(err)
			if at.Partition != want.Partition {
				t.Errorf("a key is in partition %d; %d is that of others", at.Partition, want.Partition)
			}
		case "consume":
			r := newRecorder()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- mine.Consume(ctx, "orders", "billing", r.handle, nil) }() // received below
			r.waitFor(t, 1)
			cancel()
			must(<-ended)
		}
		after, err := mine.Admin().DescribeTopic(t.Context(), "orders")
		must(err)
		if after.ID == before.ID || len(after.Storage[0].Partitions) != 3 {
			t.Errorf("%s: the topic is %+v after %+v", how, after, before)
		}
		if err := mine.Admin().DeleteTopic(t.Context(), "orders", &admin.DeleteTopicOptions{Force: true, ID: before.ID}); !errors.Is(err, ringfence.ErrNotFound) {
			t.Errorf("%s: the topic that is gone is deleted: %v", how, err)
		}
		_, err = mine.Admin().DescribeTopic(t.Context(), "orders")
		must(err)
	}
}

func produceAsync(ctx context.Context, rf *ringfence.Client, m ringfence.Message) (ringfence.Position, error) {
	type answer struct {
		at  ringfence.Position
		err error
	}
	ch := make(chan answer, 1)
	rf.ProduceAsync(ctx, "orders", m, nil, func(at ringfence.Position, err error) { ch <- answer{at, err} })
	a := <-ch
	return a.at, a.err
}

// A service asks for a topic with another retention than it has: that is told, and nothing is changed.
func TestARetentionThatIsNotTakenIsTold(t *testing.T) {
	t.Parallel()
	var said testlog.Buffer
	rf := openDir(t, ringfence.Config{Log: "mem:", Registry: "mem:", Logger: said.Logger()})
	for i, bytes := range []int64{1000, 1000, 500} {
		must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1, RetentionBytes: bytes}))
		if told := strings.Contains(said.String(), "retention_bytes=1000") && strings.Contains(said.String(), "asked_bytes=500"); told != (i == 2) {
			t.Errorf("asked %d times, the last time for %d bytes: said %q", i+1, bytes, said.String())
		}
	}
}
