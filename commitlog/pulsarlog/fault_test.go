package pulsarlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
)

// numbered appends 0, 1, 2 … to a partition until stop is set, each again until it was
// acknowledged, and returns where each was acknowledged.
func numbered(t *testing.T, topic *commitlog.Topic, partition int, stop *atomic.Bool, acked *atomic.Int64) []int64 {
	var firsts []int64
	for n := 0; !stop.Load(); {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		first, err := topic.Append(ctx, partition, []commitlog.Record{{Key: []byte("k"), Value: fmt.Append(nil, n)}}, nil)
		cancel()
		switch {
		case err == nil:
			firsts = append(firsts, first)
			acked.Add(1)
			n++
		case errors.Is(err, fault.Unknown), errors.Is(err, fault.NotDone), errors.Is(err, fault.Unavailable):
			<-time.After(100 * time.Millisecond)
		default:
			t.Errorf("append %d: %v", n, err)
			return firsts
		}
	}
	return firsts
}

// follow reads a partition to its sealed end, whatever the broker does meanwhile.
func follow(t *testing.T, topic *commitlog.Topic, partition int) []commitlog.Record {
	var all []commitlog.Record
	r := topic.NewReader(partition, 0, nil)
	for {
		recs, err := r.Next(t.Context())
		switch {
		case errors.Is(err, io.EOF):
			return all
		case errors.Is(err, fault.Unavailable):
			<-time.After(100 * time.Millisecond)
			continue
		case err != nil:
			t.Errorf("read partition %d at %d: %v", partition, r.Offset(), err)
			return all
		}
		all = append(all, recs...)
	}
}

// A broker that is killed and started again under load loses nothing that was acknowledged, keeps
// the order, and readers that were connected go on without a gap.
func TestABrokerThatIsKilledUnderLoadLosesAndReordersNothing(t *testing.T) {
	t.Parallel()
	server := testserver.Private(t, "pulsar")
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	open := func() *commitlog.Log {
		l, err := OpenURL(t.Context(), u, driver.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	writing, reading := open(), open()
	const partitions = 3
	if err := writing.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	out, err1 := writing.Topic(t.Context(), "t")
	in, err2 := reading.Topic(t.Context(), "t")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var acked atomic.Int64
	var firsts [partitions][]int64
	var seen [partitions][]commitlog.Record
	var writers, readers sync.WaitGroup
	for p := range partitions {
		writers.Go(func() { firsts[p] = numbered(t, out, p, &stop, &acked) })
		readers.Go(func() { seen[p] = follow(t, in, p) })
	}
	more := func(n int64) {
		for end := acked.Load() + n; acked.Load() < end && !t.Failed(); {
			<-time.After(10 * time.Millisecond)
		}
	}
	kills := 1
	if os.Getenv("RINGFENCE_SOAK") != "" {
		kills = 20
	}
	for range kills {
		more(300)
		began := time.Now()
		server.Kill()
		server.Restart()
		t.Logf("killed and restarted in %s", time.Since(began))
	}
	began := time.Now()
	more(300)
	t.Logf("going on took %s", time.Since(began))
	stop.Store(true)
	writers.Wait()
	for {
		_, err := out.Seal(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
	}
	readers.Wait()
	for p := range partitions {
		check(t, firsts[p], seen[p])
	}
	if err := errors.Join(writing.Close(), reading.Close()); err != nil {
		t.Error(err)
	}
}

// check compares what was acknowledged with what was read. A number may be there twice only when
// nobody could say what became of its first try, and then before the next one.
func check(t *testing.T, firsts []int64, seen []commitlog.Record) {
	t.Helper()
	at := map[int64]string{}
	last := -1
	for _, r := range seen {
		n := -1
		if _, err := fmt.Sscan(string(r.Value), &n); err != nil || n != last && n != last+1 {
			t.Fatalf("%q at offset %d stands behind %d", r.Value, r.Offset, last)
		}
		last = n
		at[r.Offset] = string(r.Value)
	}
	for n, first := range firsts {
		if at[first] != fmt.Sprint(n) {
			t.Fatalf("%d was acknowledged at offset %d, where %q stands", n, first, at[first])
		}
	}
	t.Logf("%d acknowledged, %d read", len(firsts), len(seen))
}
