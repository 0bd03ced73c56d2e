package filelog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/vfs"
)

func TestOpenReportsEveryMistakeAtOnce(t *testing.T) {
	t.Parallel()
	_, err := filelog.Open(t.Context(), filelog.Config{SegmentBytes: 5, BufferBytes: -1, Options: driver.Options{Durability: "maybe"}})
	if !errors.Is(err, commitlog.ErrInvalid) {
		t.Fatal(err)
	}
	for _, word := range []string{"Dir or FS", "SegmentBytes", "BufferBytes", "Durability"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
}

func TestOpenRefusesFileSystemsItCantWorkOn(t *testing.T) {
	t.Parallel()
	for kind, want := range map[vfs.Kind]string{
		{Type: "nfs", Network: true}:       "network file system (nfs)",
		{Type: "squashfs", ReadOnly: true}: "read-only file system",
	} {
		mem := vfs.NewMem(1)
		mem.SetKind(kind)
		_, err := filelog.Open(t.Context(), filelog.Config{FS: mem})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("on %+v: %v; want %q", kind, err, want)
		}
	}
}

func TestOpenRefusesANewerFormat(t *testing.T) {
	t.Parallel()
	c := filelog.Config{Dir: t.TempDir()}
	open(t, c)
	file := filepath.Join(c.Dir, "log", "FORMAT")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(string(b), " 1", " 2", 1)
	for text, want := range map[string]error{newer: commitlog.ErrInvalid, "something else": commitlog.ErrCorrupt} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		word := "not a file of Ringfence"
		if text == newer {
			word = "upgrade"
		}
		if _, err := filelog.Open(t.Context(), c); !errors.Is(err, want) || !strings.Contains(err.Error(), word) {
			t.Errorf("FORMAT %q: %v; want %v, with %q", text, err, want, word)
		}
	}
}

func TestOpenInAFileSaysSo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := filelog.Open(t.Context(), filelog.Config{Dir: file}); !errors.Is(err, commitlog.ErrInvalid) {
		t.Errorf("opened a file: %v", err)
	}
}

// Whoever opens a topic that others have open takes the page as it is: what they have not
// synced yet is not for it to judge.
func TestWhoOpensATopicInUseRecoversNothing(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	first := openTopic(t, open(t, filelog.Config{FS: mem.Process()}), "t", 1)
	put(t, first, 3)
	second, err := filelog.Open(t.Context(), filelog.Config{FS: vfs.Inject(mem.Process(), func(op *vfs.Op) error {
		segments := strings.HasSuffix(op.Name, ".seg") && (op.Kind == vfs.OpWrite || op.Kind == vfs.OpSync)
		if segments || op.Kind == vfs.OpSyncDir && op.Name == "log/topics/t" {
			t.Errorf("%s of %s", op.Kind, op.Name)
		}
		return nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	topic, err := second.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	wantBounds(t, topic, 0, 3)
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	put(t, first, 1)
	wantBounds(t, first, 0, 4)
}

// Who is alone recovers under the write lock, which a deleter that was stopped may have.
func TestOpeningEndsWithItsContextWhileSomebodyHasTheWriteLock(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	l := open(t, filelog.Config{FS: mem})
	if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	lock, err := mem.Process().OpenFile("log/topics/t/write.lock", os.O_RDWR, 0)
	if err == nil {
		err = lock.Lock(true)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.Topic(ctx, "t"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "write.lock") {
		t.Errorf("opening: %v; expected the end of the context, and the lock", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	topic, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	_ = topic.Close()
}
