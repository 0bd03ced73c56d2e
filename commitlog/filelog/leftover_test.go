package filelog_test

import (
	"context"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/vfs"
)

// appendOS appends n records at level OS, which are acknowledged before they are durable.
func appendOS(t *testing.T, fsys vfs.FS, n int) *commitlog.Log {
	t.Helper()
	l, err := filelog.Open(t.Context(), filelog.Config{FS: fsys, Options: driver.Options{Durability: driver.OS}})
	if err != nil {
		t.Fatal(err)
	}
	topic := openTopic(t, l, "t", 1)
	for range n {
		if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("x")}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestWhatAWriterLeftUnsyncedIsSeenByTheNextReader(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*vfs.Mem, *commitlog.Log){
		"closed": func(_ *vfs.Mem, l *commitlog.Log) { l.Close() },
		"killed": func(m *vfs.Mem, l *commitlog.Log) { m.Kill(); l.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem(1)
			writer := mem.Process()
			leave(writer, appendOS(t, writer, 3))
			reader := openTopic(t, open(t, filelog.Config{FS: mem}), "t", 1)
			if b, err := reader.Bounds(t.Context(), 0); err != nil || b.Next != 3 {
				t.Fatalf("a reader at level sync sees %+v, %v; expected 3 records", b, err)
			}
		})
	}
}

func TestWhatADeadWriterLeftUnsyncedWakesThoseWhoWait(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	writer := mem.Process()
	l := appendOS(t, writer, 1)
	reader := openTopic(t, open(t, filelog.Config{FS: mem}), "t", 1)
	topic, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("last")}}, nil); err != nil {
		t.Fatal(err)
	}
	writer.Kill()
	l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := reader.Wait(ctx, 0, 1); err != nil {
		t.Fatalf("the last record of a dead writer was not seen: %v", err)
	}
}
