package kafkalog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/commitlog/logtest"
	"github.com/ringfence/ringfence/internal/testserver"
)

// config is a log of its own on the shared broker.
func config(t testing.TB) kafkalog.Config {
	t.Helper()
	u, err := url.Parse(testserver.URL(t, "kafka"))
	if err != nil {
		t.Fatal(err)
	}
	c := kafkalog.Config{Brokers: strings.Split(u.Host, ","), Prefix: fmt.Sprintf("test-%x.", rand.Uint32())}
	t.Cleanup(func() { removeTopics(t, c) })
	return c
}

func removeTopics(t testing.TB, c kafkalog.Config) {
	l, err := kafkalog.Open(context.Background(), c)
	if err != nil {
		t.Errorf("open the log to clean up: %v", err)
		return
	}
	list, err := l.Topics(context.Background())
	if err != nil {
		t.Error(err)
	}
	for _, topic := range list {
		if err := l.DeleteTopic(context.Background(), topic.Name); err != nil && !errors.Is(err, commitlog.ErrNotFound) {
			t.Errorf("clean up: %v", err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func open(t testing.TB, c kafkalog.Config) *commitlog.Log {
	t.Helper()
	l, err := kafkalog.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConformance(t *testing.T) {
	t.Parallel()
	several := strings.Contains(testserver.URL(t, "kafka"), ",") // brokers, as in make soak-cluster: one may lag
	logtest.Run(t, logtest.Harness{
		Store: func(t testing.TB) func() *commitlog.Log {
			c := config(t)
			c.RetainSoon()
			return func() *commitlog.Log { return open(t, c) }
		},
		Features: logtest.Features{Slow: true, EventualLists: several, SequencesInRecords: true, EpochsOfPartitions: true},
	})
}
