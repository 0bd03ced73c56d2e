package pulsarlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// Partitions, fifty in a soak, are sealed while two processes append to each, and readers follow, come and go:
// each reader gets all that was acknowledged, and every look finds one end, behind all of it.
func TestReadersOfPartitionsSealedUnderLoadGetAllThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	const writers, before = 2, 3
	partitions := 8
	if os.Getenv("RINGFENCE_SOAK") != "" {
		partitions = 50
	}
	open := store(t)
	a, b := open(), open()
	if err := a.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	one, err1 := a.Topic(t.Context(), "t")
	other, err2 := b.Topic(t.Context(), "t")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	s := &sealed{t: t, acked: make([]map[int64]string, partitions)}
	seen, stopped, looked := make([]map[int64]string, partitions), make([]int64, partitions), make([]int64, partitions)
	var writing, reading, looking sync.WaitGroup
	started := make(chan struct{}, partitions*writers)
	for p := range partitions {
		s.acked[p] = map[int64]string{}
		for w := range writers {
			writing.Go(func() { s.write([]*commitlog.Topic{one, other}[w], p, w, before, started) })
		}
		reading.Go(func() { seen[p], stopped[p] = s.follow([]*commitlog.Topic{one, other}[p%2], p, p%3 == 0) })
		looking.Go(func() { looked[p] = s.look(other, p) })
	}
	for range cap(started) {
		<-started
	}
	for {
		if s.ends, err1 = one.Seal(t.Context()); err1 == nil {
			break
		}
		if !errors.Is(err1, fault.Unavailable) {
			t.Fatal(err1)
		}
	}
	writing.Wait()
	reading.Wait()
	looking.Wait()
	for p := range partitions {
		if looked[p] != s.ends[p] {
			t.Errorf("partition %d was sealed with the end %d, then with %d", p, looked[p], s.ends[p])
		}
		s.compare(p, seen[p], stopped[p])
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
}

// sealed is what came of partitions that were sealed under load.
type sealed struct {
	t     *testing.T
	mu    sync.Mutex
	acked []map[int64]string // by partition: values by offset
	ends  []int64
}

// write appends until the seal. It says when it is at work.
func (s *sealed) write(topic *commitlog.Topic, partition, writer, before int, started chan<- struct{}) {
	for n := 0; ; n++ {
		if n == before {
			started <- struct{}{}
		}
		value := fmt.Sprintf("%d/%d/%0500d", partition, writer, n)
		at, err := topic.Append(s.t.Context(), partition, []commitlog.Record{{Value: []byte(value)}}, nil)
		switch {
		case err == nil:
			s.mu.Lock()
			s.acked[partition][at] = value
			s.mu.Unlock()
		case errors.Is(err, fault.Sealed) && n >= before:
			return
		case errors.Is(err, fault.NotDone), errors.Is(err, fault.Unknown), errors.Is(err, fault.Unavailable): // and again
			n--
		default:
			s.t.Errorf("append %d to partition %d: %v", n, partition, err)
			if n < before {
				started <- struct{}{}
			}
			return
		}
	}
}

// follow reads a partition to the end of it, with a new reader every few records if it is restless.
func (s *sealed) follow(topic *commitlog.Topic, partition int, restless bool) (map[int64]string, int64) {
	seen := map[int64]string{}
	r := topic.NewReader(partition, 0, nil)
	for {
		recs, err := r.Next(s.t.Context())
		switch {
		case errors.Is(err, io.EOF):
			return seen, r.Offset()
		case errors.Is(err, fault.Unavailable):
			<-time.After(10 * time.Millisecond)
		case err != nil:
			s.t.Errorf("read partition %d at %d: %v", partition, r.Offset(), err)
			return seen, r.Offset()
		}
		for _, rec := range recs {
			seen[rec.Offset] = string(rec.Value)
		}
		if restless && len(seen)%5 == 0 {
			r = topic.NewReader(partition, r.Offset(), nil)
		}
	}
}

// look asks for the bounds until they say that the partition is sealed, and where.
func (s *sealed) look(topic *commitlog.Topic, partition int) int64 {
	for {
		switch b, err := topic.Bounds(s.t.Context(), partition); {
		case err == nil && b.Sealed:
			return b.Next
		case err != nil && !errors.Is(err, fault.Unavailable):
			s.t.Errorf("bounds of partition %d: %v", partition, err)
			return -1
		}
		<-time.After(time.Millisecond)
	}
}

func (s *sealed) compare(partition int, seen map[int64]string, end int64) {
	if end != s.ends[partition] {
		s.t.Errorf("partition %d: a reader stopped at %d; the seal says %d", partition, end, s.ends[partition])
	}
	for at, value := range s.acked[partition] {
		if at >= s.ends[partition] || seen[at] != value {
			s.t.Errorf("partition %d ends at %d: %.12s was acknowledged at %d, where a reader got %.12q", partition, s.ends[partition], value, at, seen[at])
		}
	}
}
