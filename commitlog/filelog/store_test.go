package filelog

import (
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/vfs"
)

// madeTopic opens a log on fsys, with a topic "t" in it.
func madeTopic(t *testing.T, fsys vfs.FS, c Config, conf commitlog.TopicConfig) (*commitlog.Log, *commitlog.Topic) {
	t.Helper()
	c.FS, conf.Name = fsys, "t"
	l, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := l.CreateTopic(t.Context(), conf); err != nil {
		t.Fatal(err)
	}
	topic, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	return l, topic
}

// storeOf is what a process on fsys has of the topic "t".
func storeOf(t *testing.T, fsys vfs.FS, c Config) *store {
	t.Helper()
	c.FS = fsys
	c.setDefaults()
	s, err := openStore(t.Context(), fsys, &c, "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	return s
}

// fillTwo appends 50 records to each of two partitions: several small segments.
func fillTwo(t *testing.T, topic *commitlog.Topic) {
	t.Helper()
	for i := range 100 {
		if _, err := topic.Append(t.Context(), i%2, []commitlog.Record{{Value: make([]byte, 8<<10)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
}
