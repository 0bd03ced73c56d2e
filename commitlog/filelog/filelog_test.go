package filelog_test

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/filelog"
)

func open(t testing.TB, c filelog.Config) *commitlog.Log {
	t.Helper()
	l, err := filelog.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func openTopic(t testing.TB, l *commitlog.Log, name string, partitions int) *commitlog.Topic {
	t.Helper()
	ctx := context.Background()
	if err := l.CreateTopic(ctx, commitlog.TopicConfig{Name: name, Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	topic, err := l.Topic(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}
