package filelog_test

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/vfs"
)

// copied is a copy in memory.
type copied struct {
	files  map[string][]byte
	before func() // called once, near the first cut
	cut    func() // at each cut
	then   func() // once, as the next segment of the topic "t" is copied behind a cut
	cuts   int
}

func call(hook *func()) {
	if f := *hook; f != nil {
		*hook = nil
		f()
	}
}

func (c *copied) File(name string, size int64, content io.Reader) error {
	if c.cuts > 0 && strings.HasPrefix(name, "log/topics/t/") && strings.HasSuffix(name, ".seg") {
		call(&c.then)
	}
	b, err := io.ReadAll(io.LimitReader(content, size))
	c.files[name] = b
	return err
}

// take copies a log.
func (c *copied) take(t *testing.T, from *vfs.Mem) {
	t.Helper()
	c.files = map[string][]byte{}
	got, err := filelog.Copy(t.Context(), filelog.Config{FS: from.Process()}, &filelog.CopyOptions{
		Sink: c, Before: func() error { call(&c.before); return nil }, Cut: func() error { c.cuts++; c.cut(); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(c.files, func(name string, _ []byte) bool { return !slices.Contains(got.Files, name) })
}

// open is the log of the copy.
func (c *copied) open(t *testing.T) *commitlog.Log {
	t.Helper()
	mem := vfs.NewMem(1)
	for _, dir := range filelog.Dirs() {
		if err := mem.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range c.files {
		err := mem.MkdirAll(path.Dir(name), 0o700)
		if err == nil {
			err = overwriteNew(mem, name, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if bad := check(t, mem); len(bad) > 0 {
		t.Errorf("the copy is damaged: %+v", bad)
	}
	return open(t, smallSegments(mem, driver.Sync))
}

func overwriteNew(fsys vfs.FS, name string, b []byte) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if len(b) == 0 {
		return nil
	}
	_, err = f.WriteAt(b, 0)
	return err
}

// What others do while a log is copied is in the copy as a whole, or not at all: it shows the moment of the last cut.
func TestCopyShowsOneMoment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hook func(c *copied, l *commitlog.Log, tp *commitlog.Topic)
		cuts int
	}{
		"an append behind the cut": {func(c *copied, _ *commitlog.Log, tp *commitlog.Topic) {
			c.then = func() { send(t, tp, "late", 100) }
		}, 1},
		"segments that are dropped, and their files used again": {func(c *copied, _ *commitlog.Log, tp *commitlog.Topic) {
			c.then = func() {
				for i := range 40 {
					if err := tp.Trim(t.Context(), 0, send(t, tp, fmt.Sprint("more", i), 9000)); err != nil {
						t.Error(err)
					}
				}
			}
		}, 2},
		"a topic that is made": {func(c *copied, l *commitlog.Log, _ *commitlog.Topic) {
			c.before = func() { send(t, openTopic(t, l, "u", 1), "new", 100) }
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem(1)
			l := open(t, smallSegments(mem, driver.Sync))
			tp := openTopic(t, l, "t", 1)
			for i := range 5 {
				send(t, tp, fmt.Sprint("record", i), 9000)
			}
			var want map[int64]string
			cp := &copied{cut: func() { want = values(t, tp, 0) }}
			c.hook(cp, l, tp)
			cp.take(t, mem)
			got := cp.open(t)
			if have := values(t, openTopic(t, got, "t", 1), 0); !maps.Equal(have, want) || cp.cuts != c.cuts {
				t.Errorf("after %d cuts the copy has %v; expected %v after %d", cp.cuts, have, want, c.cuts)
			}
			topics, err := l.Topics(t.Context())
			if all, also := got.Topics(t.Context()); err != nil || also != nil || len(all) != len(topics) {
				t.Errorf("the copy has the topics %+v, %v; expected %+v, %v", all, also, topics, err)
			}
		})
	}
}

// Nothing can be appended while the caller copies what belongs to the same moment.
func TestCopyHoldsBackWritersAtItsCut(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	send(t, openTopic(t, open(t, smallSegments(mem, driver.Sync)), "t", 1), "a record", 100)
	cp := &copied{cut: func() {
		f, err := mem.Process().OpenFile("log/topics/t/write.lock", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if won, err := f.TryLock(true); won || err != nil {
			t.Errorf("at the cut the write lock can be had: %v, %v", won, err)
		}
	}}
	cp.take(t, mem)
}

// What retention goes by is in the copy: holds, trims, and the retention as it was altered.
func TestCopyKeepsWhatRetentionGoesBy(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	l := open(t, smallSegments(mem, driver.Sync))
	tp := openTopic(t, l, "t", 1)
	for i := range 5 {
		send(t, tp, fmt.Sprint("record", i), 100)
	}
	altered := commitlog.TopicConfig{Name: "t", Partitions: 1, RetentionBytes: 1 << 30}
	for _, err := range []error{tp.Hold(t.Context(), "g", []int64{3}), tp.Trim(t.Context(), 0, 2), l.AlterTopic(t.Context(), altered)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cp := &copied{cut: func() {}}
	cp.take(t, mem)
	got, err := cp.open(t).Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	wantBounds(t, got, 2, 5)
	holds, err := got.Holds(t.Context())
	if err != nil || !slices.Equal(holds["g"], []int64{3}) || got.Config().RetentionBytes != 1<<30 {
		t.Errorf("the copy has the holds %v, %v, and %+v", holds, err, got.Config())
	}
}
