//go:build linux

package filelog_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Who removes the directory of a topic that is in use, or puts a backup in its place, takes what is appended
// from then on: nobody who opens the topic sees it. Those who have it open say so soon.
func TestADirectoryThatIsNotInItsPlaceIsNotAppendedTo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(dir string) error
		goes bool // nothing is wrong
		back bool // the topic can be opened again
		only bool // nobody appends
		last bool // somebody appends once more
		all  bool // it is the data directory that comes to harm, and nothing can be opened
	}{
		"left alone":                  {harm: func(string) error { return nil }, goes: true},
		"removed":                     {harm: remove},
		"removed, and nobody appends": {harm: remove, only: true},
		"removed before the last":     {harm: remove, last: true},
		"moved away":                  {harm: func(dir string) error { return os.Rename(dir, dir+".old") }},
		"a copy in its place": {back: true, harm: func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.CopyFS(dir, os.DirFS(dir+".old")), private(dir))
		}},
		"the data directory moved away": {all: true, harm: func(dir string) error { return os.Rename(dir, dir+".old") }},
		"a copy in the place of the data directory": {all: true, harm: func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.CopyFS(dir, os.DirFS(dir+".old")))
		}},
		"a file in the place of the data directory": {all: true, harm: func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.WriteFile(dir, nil, 0o600))
		}},
		"the data directory moved away, and a link to it": {all: true, goes: true, harm: func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Symlink(dir+".old", dir))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l, err := filelog.Open(t.Context(), filelog.Config{Dir: dir, SegmentBytes: filelog.MinSegmentBytes})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			conf := commitlog.TopicConfig{Name: "t", Partitions: 1}
			if c.only {
				conf.RetentionAgeMillis = 8000 // a topic with such a retention is looked at each second, and nothing in it grows old
			}
			if err := l.CreateTopic(t.Context(), conf); err != nil {
				t.Fatal(err)
			}
			topic, err := l.Topic(t.Context(), "t")
			if err != nil {
				t.Fatal(err)
			}
			if !c.only { // or who waits hears by himself: when the segment is closed, or its records are dropped
				put(t, topic, 1)
			}
			waits := make(chan error, 1)
			soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			go func() { waits <- topic.Wait(soon, 0, 1<<40) }() // ends with the topic
			if c.only {
				<-time.After(time.Second) // it waits already
			}
			harmed := filepath.Join(dir, "log", "topics", "t")
			if c.all {
				harmed = dir
			}
			if err := c.harm(harmed); err != nil {
				t.Fatal(err)
			}
			if c.last {
				put(t, topic, 1)
			}
			if c.only || c.last {
				wantErr(t, "waiting", <-waits, fault.Closed, "removed or replaced")
				return
			}
			err = appendFor(t, topic, 4*time.Second)
			if c.goes {
				if err != nil {
					t.Errorf("appending: %v", err)
				}
				return
			}
			wantErr(t, "appending", err, fault.Closed, "removed or replaced")
			wantErr(t, "waiting", <-waits, fault.Closed, "removed or replaced")
			again, err := l.Topic(t.Context(), "t")
			if c.all {
				wantErr(t, "opening it", err, fault.Closed, "removed or replaced")
				wantErr(t, "making another", l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "u", Partitions: 1}), fault.Closed, "removed or replaced")
				return
			}
			if !c.back {
				wantErr(t, "opening it", err, fault.NotFound)
				return
			}
			if err != nil {
				t.Fatalf("opening what is there now: %v", err)
			}
			put(t, again, 1)
			wantBounds(t, again, 0, 2)
		})
	}
}

// remove removes a directory into which others may put files meanwhile.
func remove(dir string) error {
	err := os.Rename(dir, dir+".gone")
	_ = os.RemoveAll(dir + ".gone") // what is made in it meanwhile stays
	return err
}

// private closes what a copy has to others.
func private(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.Chmod(filepath.Join(dir, e.Name()), 0o600))
	}
	return errors.Join(err, os.Chmod(dir, 0o700))
}

// appendFor appends until that fails, or for so long.
func appendFor(t *testing.T, topic *commitlog.Topic, long time.Duration) error {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(long); time.Now().Before(end); <-tick.C {
		if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("x")}}, nil); err != nil {
			return err
		}
	}
	return nil
}

// A directory that was moved aside, or copied, has the name of a topic in it that does not open by that name.
func TestATopicThatWasMovedAsideIsNotListed(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	lines := make(lineLog, 1000)
	l := open(t, filelog.Config{FS: mem, Options: driver.Options{Logger: slog.New(slog.NewTextHandler(lines, nil))}})
	for _, name := range []string{"aside", "fine"} {
		if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: name, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := mem.Rename("log/topics/aside", "log/topics/aside.old"); err != nil {
		t.Fatal(err)
	}
	if list, err := l.Topics(t.Context()); err != nil || len(list) != 1 || list[0].Name != "fine" {
		t.Errorf("topics %+v, %v; expected the other one", list, err)
	}
	lines.expect(t, "left out", "level=WARN", "directory=aside.old", "topic=aside")
}
