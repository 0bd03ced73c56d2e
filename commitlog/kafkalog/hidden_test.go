package kafkalog

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// hidden is a topic whose partition 0 has an append of a producer that readers don't see yet, because
// a foreign transaction is open. What this process knew of the producer is forgotten.
func hidden(t *testing.T) (*handle, *kgo.Client, *driver.AppendRequest) {
	t.Helper()
	l, h := retained(t, driver.TopicConfig{})
	foreign, err := kgo.NewClient(kgo.SeedBrokers(l.c.Brokers...), kgo.TransactionalID(l.c.Prefix), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(l.kafkaName("t")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(foreign.Close)
	if err := foreign.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := foreign.ProduceSync(t.Context(), kgo.StringRecord("foreign")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	req := &driver.AppendRequest{Records: []driver.Record{{Value: []byte("ours")}}, Producer: driver.Producer{ID: 7}}
	if first, err := h.appendRequest(req); err != nil || first != 1 {
		t.Fatalf("offset %d, %v", first, err)
	}
	h.s.parts[0].produce.others = nil
	return h, foreign, req
}

func (h *handle) appendRequest(req *driver.AppendRequest) (first int64, err error) {
	done := make(chan struct{})
	h.Append(h.s.l.ctx, req, func(f int64, e error) { first, err = f, e; close(done) })
	<-done
	return first, err
}

func TestAnAppendThatReadersDoNotSeeYetIsWaitedFor(t *testing.T) {
	t.Parallel()
	h, foreign, req := hidden(t)
	ended := make(chan error, 1)
	go func() {
		q := &h.s.parts[0].produce
		for n, busy := 0, false; !busy && t.Context().Err() == nil; n++ { // until the repetition has come
			sleep(t.Context(), n)
			q.mu.Lock()
			busy = q.busy
			q.mu.Unlock()
		}
		ended <- foreign.EndTransaction(t.Context(), kgo.TryCommit)
	}()
	if first, err := h.appendRequest(req); err != nil || first != 1 {
		t.Errorf("the repetition: offset %d, %v; want that of the first one, 1", first, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAnAppendThatReadersDoNotSeeDoesNotCountAsLost(t *testing.T) {
	t.Parallel()
	h, foreign, req := hidden(t)
	if _, err := h.appendRequest(req); !errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Invalid) {
		t.Errorf("the repetition while a transaction is open: %v", err)
	}
	if err := foreign.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	if first, err := h.appendRequest(req); err != nil || first != 1 {
		t.Errorf("the repetition: offset %d, %v; want that of the first one, 1", first, err)
	}
}

// A broker that refuses every append refuses the end of a transaction as well, and the end of the
// topic would not be known before that.
func TestASealWaitsForAForeignTransaction(t *testing.T) {
	t.Parallel()
	h, foreign, req := hidden(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if ends, err := h.Seal(ctx); err == nil {
		t.Fatalf("sealed at %v while a transaction is open", ends)
	}
	req = &driver.AppendRequest{Records: req.Records}
	last, err := h.appendRequest(req)
	if err != nil {
		t.Fatalf("an append after a seal that was not begun: %v", err)
	}
	if err := foreign.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	ends, err := h.Seal(t.Context())
	if err != nil || ends[0] <= last {
		t.Errorf("sealed at %v, %v after the transaction; the last record is at %d", ends, err, last)
	}
}
