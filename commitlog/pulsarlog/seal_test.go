package pulsarlog

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// A broker whose partition is terminated while entries are on their way to its disk sometimes
// closes it to new readers for ever. Ringfence has to open it again.
func TestASealUnderLoadLeavesThePartitionsReadable(t *testing.T) {
	t.Parallel()
	open := store(t)
	sealing, other := open(), open()
	for round := range 8 {
		name := fmt.Sprintf("t%d", round)
		if err := sealing.CreateTopic(t.Context(), commitlog.TopicConfig{Name: name, Partitions: 2}); err != nil {
			t.Fatal(err)
		}
		a, err1 := sealing.Topic(t.Context(), name)
		b, err2 := other.Topic(t.Context(), name)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		stored := sealUnderLoad(t, a, b)
		began := time.Now()
		for p, want := range stored {
			r := b.NewReader(p, 0, nil)
			for n := 0; n < want; {
				recs, err := r.Next(t.Context())
				if err != nil {
					t.Fatalf("round %d: read partition %d of a sealed topic: %v", round, p, err)
				}
				n += len(recs)
			}
		}
		t.Logf("round %d: %v records read in %s", round, stored, time.Since(began))
	}
	if err := errors.Join(sealing.Close(), other.Close()); err != nil {
		t.Error(err)
	}
}

// sealUnderLoad seals a while writers append to both handles, and counts what was acknowledged by
// partition.
func sealUnderLoad(t *testing.T, a, b *commitlog.Topic) (stored [2]int) {
	t.Helper()
	var mu sync.Mutex
	var writers sync.WaitGroup
	started := make(chan struct{}, 6)
	for w := range 6 {
		writers.Go(func() { // joined below
			topic, p := []*commitlog.Topic{a, b}[w%2], w/2%2
			for n := 0; ; n++ {
				if n == 3 {
					started <- struct{}{}
				}
				_, err := topic.Append(t.Context(), p, []commitlog.Record{{Value: []byte("x")}}, nil)
				if err != nil {
					if !errors.Is(err, fault.Sealed) || n < 3 {
						t.Errorf("append %d: %v; want it stored, or refused by the seal", n, err)
					}
					if n < 3 {
						started <- struct{}{}
					}
					return
				}
				mu.Lock()
				stored[p]++
				mu.Unlock()
			}
		})
	}
	for range cap(started) {
		<-started
	}
	if _, err := a.Seal(t.Context()); err != nil {
		t.Error(err)
	}
	writers.Wait()
	return stored
}
