package filelog_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
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

func TestWhatWasAppendedIsReadInOrderAcrossSegments(t *testing.T) {
	t.Parallel()
	for _, level := range []driver.Durability{driver.Sync, driver.OS} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := filelog.Config{Dir: dir, SegmentBytes: filelog.MinSegmentBytes, Options: driver.Options{Durability: level}}
			topic := openTopic(t, open(t, c), "orders", 3)
			const n = 3000
			for i := range n {
				p := i % 3
				recs := []commitlog.Record{{Key: []byte{byte(i)}, Value: fmt.Appendf(nil, "value %d %0200d", i, i)}}
				first, err := topic.Append(t.Context(), p, recs, nil)
				if err != nil {
					t.Fatal(err)
				}
				if want := int64(i / 3); first != want {
					t.Fatalf("append %d went to offset %d; expected %d", i, first, want)
				}
			}
			for range 2 { // the second time through another process's eyes
				for p := range 3 {
					checkAll(t, topic, p, n/3)
				}
				topic = openTopic(t, open(t, c), "orders", 3)
			}
		})
	}
}

func checkAll(t *testing.T, topic *commitlog.Topic, p, n int) {
	t.Helper()
	at := int64(0)
	for at < int64(n) {
		recs, next, err := topic.Read(t.Context(), p, at, nil, &commitlog.ReadOptions{MaxBytes: 10000})
		if err != nil {
			t.Fatalf("read %d: %v", at, err)
		}
		for i := range recs {
			want := fmt.Sprintf("value %d %0200d", int(at)*3+p, int(at)*3+p)
			if recs[i].Offset != at || string(recs[i].Value) != want {
				t.Fatalf("partition %d: read offset %d %.20q; expected %d %.20q", p, recs[i].Offset, recs[i].Value, at, want)
			}
			at++
		}
		if next != at {
			t.Fatalf("next is %d after %d", next, at)
		}
	}
}

func TestAWaiterInAnotherProcessIsWoken(t *testing.T) {
	t.Parallel()
	c := filelog.Config{Dir: t.TempDir()}
	a := openTopic(t, open(t, c), "t", 2)
	b := openTopic(t, open(t, c), "t", 2)
	for i := range 50 {
		woken := make(chan error, 1)
		go func() { woken <- b.Wait(t.Context(), 1, int64(i)) }()
		if _, err := a.Append(t.Context(), 1, []commitlog.Record{{Value: []byte("x")}}, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-woken:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(60 * time.Second):
			t.Fatal("not woken")
		}
	}
}
