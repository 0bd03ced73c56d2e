package filelog_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/vfs"
)

// book is what people are told.
type book struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *book) count(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.b.String(), what)
}

// A topic with a small retention is looked at ten times a second, and a group may be away for days.
func TestThatRetentionWaitsIsToldOnce(t *testing.T) {
	t.Parallel()
	var told book
	l, err := filelog.Open(t.Context(), filelog.Config{FS: vfs.NewMem(1), SegmentBytes: filelog.MinSegmentBytes, Options: driver.Options{Logger: slog.New(slog.NewTextHandler(&told, nil))}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 1, RetentionAgeMillis: 300}); err != nil {
		t.Fatal(err)
	}
	topic, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if err := topic.Hold(t.Context(), "group", []int64{0}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); told.count("retention waits") == 0; time.Sleep(20 * time.Millisecond) {
		if put(t, topic, 1); time.Now().After(end) {
			t.Fatal("nobody is told that retention waits")
		}
	}
	time.Sleep(time.Second)
	if n := told.count("retention waits"); n != 1 {
		t.Errorf("people are told %d times in a second that retention waits; expected once", n)
	}
}
