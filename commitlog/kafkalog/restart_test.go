package kafkalog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/internal/testserver"
)

// The broker is killed and restarted while writers and readers work on it: nothing acked is lost or
// moved, nothing that certainly failed appears, nothing is reordered, and everything goes on. With
// RINGFENCE_SOAK it takes minutes.
func TestABrokerThatDiesAgainAndAgainLosesNothing(t *testing.T) {
	t.Parallel()
	server := testserver.Private(t, "kafka")
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	long := 15 * time.Second
	if os.Getenv("RINGFENCE_SOAK") != "" {
		long = 3 * time.Minute
	}
	s := &soak{T: t, server: server, moved: make(chan struct{}, 1), config: kafkalog.Config{Brokers: strings.Split(u.Host, ","), Prefix: fmt.Sprintf("soak-%x.", rand.Uint32())}}
	l := open(t, s.config)
	const partitions = 3
	if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "soak", Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var writers, readers sync.WaitGroup
	for w := range 6 {
		writers.Go(func() { s.write(ctx, w, w%partitions) })
	}
	stop := make(chan struct{})
	seen := make([][]commitlog.Record, partitions)
	for p := range partitions {
		readers.Go(func() { seen[p] = s.read(p, stop) })
	}
	s.disturb(ctx)
	writers.Wait()
	s.await(partitions) // readers get to the end
	close(stop)
	readers.Wait()
	s.judge(seen)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

type soak struct {
	*testing.T
	server *testserver.Server
	config kafkalog.Config

	mu       sync.Mutex
	outcomes []outcome
	moved    chan struct{}   // rung when a reader got further
	reached  [3]atomic.Int64 // how far the readers are
}

// outcome is what a writer was told.
type outcome struct {
	writer, partition int
	value             string
	first             int64
	err               error
}

func (s *soak) note(o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes = append(s.outcomes, o)
}

func (s *soak) topic() (*commitlog.Log, *commitlog.Topic) {
	for {
		l, err := kafkalog.Open(context.Background(), s.config)
		if err == nil {
			topic, err := l.Topic(context.Background(), "soak")
			if err == nil {
				return l, topic
			}
			s.Logf("open: %v", err)
			if err := l.Close(); err != nil {
				s.Error(err)
			}
		}
	}
}

// write appends until ctx ends: with a window of appends that are never repeated, or, every other
// writer, one that is repeated until it is acked.
func (s *soak) write(ctx context.Context, w, partition int) {
	l, topic := s.topic()
	defer func() {
		if err := l.Close(); err != nil {
			s.Error(err)
		}
	}()
	if w%2 == 1 {
		id := rand.Uint64()
		for i := int64(0); ctx.Err() == nil; i++ {
			value := fmt.Sprintf("%d/%d", w, i)
			for {
				first, err := topic.Append(context.Background(), partition, []commitlog.Record{{Key: []byte("k"), Value: []byte(value)}},
					&commitlog.AppendOptions{Producer: commitlog.Producer{ID: id, Sequence: i}})
				if err == nil {
					s.note(outcome{w, partition, value, first, nil})
					break
				}
				if !errors.Is(err, commitlog.ErrUnknown) && !errors.Is(err, commitlog.ErrNotAppended) {
					s.Errorf("writer %d: %v", w, err)
					return
				}
			}
		}
		return
	}
	window := make(chan struct{}, 200)
	for i := 0; ctx.Err() == nil; i++ {
		window <- struct{}{}
		value := fmt.Sprintf("%d/%d", w, i)
		topic.AppendAsync(context.Background(), partition, []commitlog.Record{{Key: []byte("k"), Value: []byte(value)}}, nil, func(first int64, err error) {
			s.note(outcome{w, partition, value, first, err})
			<-window
		})
	}
	for range cap(window) {
		window <- struct{}{}
	}
}

func (s *soak) read(p int, stop <-chan struct{}) []commitlog.Record {
	l, topic := s.topic()
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-stop; cancel() }()
	r := topic.NewReader(p, 0, nil)
	var all []commitlog.Record
	for {
		recs, err := r.Next(ctx)
		all = append(all, recs...)
		s.reached[p].Store(r.Offset())
		select {
		case s.moved <- struct{}{}:
		default:
		}
		if ctx.Err() != nil {
			if err := l.Close(); err != nil {
				s.Error(err)
			}
			return all
		}
		if err != nil && !errors.Is(err, commitlog.ErrUnavailable) {
			s.Errorf("reader of partition %d: %v", p, err)
			return all
		}
	}
}

// disturb kills the broker and starts it again, until ctx ends.
func (s *soak) disturb(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case <-time.After(4 * time.Second):
		case <-ctx.Done():
			return
		}
		how, end := "killed", s.server.Kill
		if n%2 == 1 {
			how, end = "halted", s.server.Stop
		}
		end()
		s.server.Restart()
		s.mu.Lock()
		s.Logf("broker %s and started again, number %d; %d answers so far", how, n+1, len(s.outcomes))
		s.mu.Unlock()
	}
}

// await waits until the readers have read what is there.
func (s *soak) await(partitions int) {
	l, topic := s.topic()
	for p := range partitions {
		b, err := topic.Bounds(s.Context(), p)
		if err != nil {
			s.Error(err)
			continue
		}
		for deadline := time.After(time.Minute); s.reached[p].Load() < b.Next; {
			select {
			case <-s.moved:
				continue
			case <-deadline:
				s.Errorf("the reader of partition %d stands at %d of %d", p, s.reached[p].Load(), b.Next)
			}
			break
		}
	}
	if err := l.Close(); err != nil {
		s.Error(err)
	}
}

func (s *soak) judge(seen [][]commitlog.Record) {
	stored := map[string]int64{}
	last := map[int]int{}
	for p, recs := range seen {
		at := int64(-1)
		for _, r := range recs {
			var w, i int
			if _, err := fmt.Sscanf(string(r.Value), "%d/%d", &w, &i); err != nil {
				s.Fatalf("partition %d offset %d: value %q", p, r.Offset, r.Value)
			}
			if r.Offset <= at {
				s.Fatalf("partition %d: offset %d after %d", p, r.Offset, at)
			}
			at = r.Offset
			before, ok := last[w]
			if ok && i <= before || w%2 == 1 && i > before+1 {
				s.Errorf("partition %d offset %d: %s comes after %d of its writer", p, r.Offset, r.Value, before)
			}
			last[w] = i
			stored[string(r.Value)] = r.Offset
		}
	}
	counts := map[string]int{}
	for _, o := range s.outcomes {
		at, ok := stored[o.value]
		switch {
		case o.err == nil:
			counts["acked"]++
			if !ok || at != o.first && o.first >= 0 {
				s.Errorf("%s was acked at %d; it is there: %v, at %d", o.value, o.first, ok, at)
			}
		case errors.Is(o.err, commitlog.ErrUnknown):
			counts["unknown"]++
		default:
			counts["not done"]++
			if ok {
				s.Errorf("%s certainly failed (%v) and is at %d", o.value, o.err, at)
			}
		}
	}
	s.Logf("%v, %d records read", counts, len(stored))
}
