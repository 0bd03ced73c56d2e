package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
)

func TestEveryFaultOfAConfigurationIsReported(t *testing.T) {
	t.Parallel()
	l := newFakeLog()
	_, err := New(Config{
		Inputs: []Input{{Source: l}, {Source: l}, {Partition: 1}}, Concurrency: -1, MaxInFlight: 1 << 20,
		Retry: Retry{MaxAttempts: 3, Initial: time.Minute, Max: time.Second},
	})
	if !errors.Is(err, fault.Invalid) {
		t.Fatalf("New returned %v", err)
	}
	for _, part := range []string{"no Handler", "twice", "no Source", "negative Concurrency", "16384", "need OnHeld", "below"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

func TestInputsAreReadInTurnAndTrackedApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := newFakeLog(), newFakeLog()
		a.fill(3000, 7)
		b.fill(2000, 7)
		var mu sync.Mutex
		busy, got := map[string]bool{}, map[int]int{}
		e := mustNew(t, Config{Inputs: []Input{{Source: a}, {Storage: 1, Partition: 4, Source: b}}, MaxInFlight: 300, Handler: func(_ context.Context, r *Record) error {
			mu.Lock()
			if busy[string(r.Key)] {
				t.Errorf("key %s is handled twice at a time", r.Key)
			}
			busy[string(r.Key)] = true
			got[r.Storage*10+r.Partition]++
			mu.Unlock()
			runtime.Gosched()
			mu.Lock()
			busy[string(r.Key)] = false
			mu.Unlock()
			return nil
		}, Start: []protocol.Position{{Storage: 1, Partition: 4, Next: 500}}})
		launch(t, e)
		synctest.Wait()
		if p := fmt.Sprint(e.Progress().Positions); p != "[{0 0 3000 [] [2999 3999] [0 0] []} {1 4 2000 [] [1999 2999] [0 0] []}]" || got[0] != 3000 || got[14] != 1500 {
			t.Errorf("%s %v", p, got)
		}
	})
}

func TestTheStartStaysInTheProgressUntilItIsPassed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(100, 0)
		start := []protocol.Position{{Next: 10, Done: []protocol.Range{{12, 20}, {50, 60}}}}
		hold := make(chan struct{})
		handled := map[int64]bool{}
		e := mustNew(t, Config{Inputs: l.input(), Start: start, Concurrency: 1, MaxInFlight: 1, Handler: func(_ context.Context, r *Record) error {
			<-hold
			handled[r.Offset] = true
			return nil
		}})
		launch(t, e)
		synctest.Wait()
		if p := fmt.Sprint(e.Progress().Positions); p != "[{0 0 10 [[12 20] [50 60]] [0 0] [0 0] []}]" {
			t.Errorf("at first %s", p)
		}
		close(hold)
		synctest.Wait()
		if len(handled) != 100-10-8-10 || handled[12] || handled[59] || !handled[11] || !handled[60] {
			t.Errorf("%d were handled: %v", len(handled), handled)
		}
	})
}

func TestKeptBytesAreNeverChanged(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	log := memlog.New()
	defer func() { _ = log.Close() }()
	if err := log.CreateTopic(ctx, commitlog.TopicConfig{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	topic, err := log.Topic(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	const count = 20000
	for i := 0; i < count; i += 100 {
		batch := make([]commitlog.Record, 100)
		for j := range batch {
			batch[j] = commitlog.Record{Key: fmt.Appendf(nil, "k%d", j%9), Value: fmt.Appendf(nil, "value %d", i+j)}
		}
		if _, err := topic.Append(ctx, 0, batch, nil); err != nil {
			t.Fatal(err)
		}
	}
	type bytes struct {
		offset int64
		value  []byte
	}
	var kept []bytes
	all := make(chan struct{})
	e := mustNew(t, Config{Inputs: []Input{{Source: Partition(topic, 0)}}, Concurrency: 1, MaxBytes: 64 << 10, Handler: func(_ context.Context, r *Record) error {
		if kept = append(kept, bytes{r.Offset, r.Value}); len(kept) == count {
			close(all)
		}
		return nil
	}})
	stop := launch(t, e)
	<-all
	drain(t, e, stop)
	for _, k := range kept {
		if want := fmt.Sprintf("value %d", k.offset); string(k.value) != want {
			t.Fatalf("offset %d holds %q", k.offset, k.value)
		}
	}
}
