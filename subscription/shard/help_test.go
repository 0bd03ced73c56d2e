package shard

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// policy is a retry policy.
func policy(initial, longest, hold time.Duration, attempts int) dispatch.Retry {
	return dispatch.Retry{Initial: initial, Max: longest, HoldFor: hold, MaxAttempts: attempts}
}

// newTopic makes a topic of one partition, and opens it.
func newTopic(t *testing.T, log *commitlog.Log, name string) *commitlog.Topic {
	t.Helper()
	if err := log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: name, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	topic, err := log.Topic(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

// within is a shard with those limits that does not run.
func within(own, endpoint *Limiter, h dispatch.Handler) *Shard {
	return New(Config{Limits: Limits{own, endpoint}, Handler: h, Grant: Grant{Set: "k3m9q2xt"}})
}

// atWork is a shard that runs until the test ends.
type atWork struct {
	*Shard
	t *testing.T
}

// begin starts a shard with topics of its own.
func begin(t *testing.T, retry dispatch.Retry, limits *Limiter, h dispatch.Handler) *atWork {
	t.Helper()
	return beginIn(t, memlog.New(), retry, limits, h)
}

func beginIn(t *testing.T, log *commitlog.Log, retry dispatch.Retry, limits *Limiter, h dispatch.Handler) *atWork {
	t.Helper()
	s := New(Config{
		Grant: Grant{Name: "billing", Set: "k3m9q2xt", Epoch: 1}, Topics: Topics{newTopic(t, log, "journal"), newTopic(t, log, "dead"), newTopic(t, log, "decisions")},
		Policy: Policy{Terms: Terms{Retry: retry}}, Limits: Limits{Own: limits}, Handler: h,
	})
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.Run(ctx) }()
	<-s.Started()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return &atWork{s, t}
}

// delay parks so many records of a key each, until their time comes.
func (s *atWork) delay(records int64, until time.Duration) {
	s.t.Helper()
	for offset := range records {
		s.later(offset, fmt.Sprint(offset), until)
	}
}

// later parks a record until its time comes.
func (s *atWork) later(offset int64, key string, until time.Duration) {
	s.t.Helper()
	at := time.Now().Add(until).UTC().AppendFormat(nil, time.RFC3339Nano)
	r := &dispatch.Record{Attempt: 1, Record: commitlog.Record{Offset: offset, Key: []byte(key), Headers: []commitlog.Header{{Name: NotBefore, Value: at}}}}
	if err := s.Handle(s.t.Context(), r); err != nil {
		s.t.Fatal(err)
	}
}
