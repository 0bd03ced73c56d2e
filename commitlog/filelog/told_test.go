package filelog_test

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/internal/vfs"
)

// A topic with a small retention is looked at ten times a second, and a group may be away for days.
func TestThatRetentionWaitsIsToldOnce(t *testing.T) {
	t.Parallel()
	var told testlog.Buffer
	l, err := filelog.Open(t.Context(), filelog.Config{FS: vfs.NewMem(1), SegmentBytes: filelog.MinSegmentBytes, Options: driver.Options{Logger: told.Logger()}})
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
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ticks := 0; ticks < 50; { // a second, from when it is told the first time
		put(t, topic, 1)
		if <-tick.C; told.Count("retention waits") > 0 {
			ticks++
		}
	}
	if n := told.Count("retention waits"); n != 1 {
		t.Errorf("people are told %d times in a second that retention waits; expected once", n)
	}
}
