package filelog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testdisk"
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/internal/vfs"
)

func TestAChoreThatFailsIsTriedLessAndLessAndLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d testlog.Buffer
		tries, err := 0, error(syscall.ENOSPC)
		c := &chore{name: "a chore", do: func() error {
			tries++
			if err != nil {
				return fmt.Errorf("segment %d: %w", tries, err)
			}
			return nil
		}}
		for range 60_000 { // a minute of appends, each of which asks for it
			c.try(d.Logger())
			time.Sleep(time.Millisecond)
		}
		// 0.1 + 0.2 + … + 3.2 s, then every 5 s
		if tries < 15 || tries > 20 {
			t.Errorf("%d tries in a minute", tries)
		}
		if n := d.Count("level=WARN"); n != 1 {
			t.Errorf("%d lines for one state", n)
		}
		err = syscall.EIO
		time.Sleep(longestPause)
		c.try(d.Logger())
		if n := d.Count("level=WARN"); n != 2 {
			t.Errorf("%d lines after another failure, expected a second one", n)
		}
		err = nil
		time.Sleep(longestPause)
		if wait := c.try(d.Logger()); wait != 0 || d.Count("works again") != 1 {
			t.Errorf("healed: next try in %s, %d lines", wait, d.Count("works again"))
		}
		for range 1_000 { // now it works, now it does not
			err = nil
			c.try(d.Logger())
			err = syscall.ENOSPC
			c.try(d.Logger())
			time.Sleep(10 * time.Millisecond)
		}
		if n := d.Count("level=WARN"); n != 3 {
			t.Errorf("%d lines of a chore that changes its mind, expected one more than before", n)
		}
		err = nil
		time.Sleep(longestPause)
		c.try(d.Logger())
		before := tries
		c.try(d.Logger())
		c.try(d.Logger())
		if tries != before+2 || d.Count("works again") != 2 {
			t.Error("a chore that works is not done whenever it is asked for")
		}
	})
}

// fill appends until it fails.
func fill(t *testing.T, topic *commitlog.Topic) error {
	t.Helper()
	for {
		if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: make([]byte, 2_000)}}, nil); err != nil {
			return err
		}
	}
}

func openOne(t *testing.T, c Config) *commitlog.Topic {
	t.Helper()
	l, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	topic, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

// fullAndHealed appends to a topic on a full disk, again and again; heal gives it room.
func fullAndHealed(t *testing.T, c Config, heal func()) {
	var d testlog.Buffer
	c.Options = driver.Options{Logger: d.Logger()}
	topic := openOne(t, c)
	var err error
	n := 0
	for start := time.Now(); time.Since(start) < 300*time.Millisecond; n++ {
		if err = fill(t, topic); !errors.Is(err, fault.NotDone) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space is left") {
			t.Fatalf("append %d on a full disk: %v", n, err)
		}
	}
	if got := d.Count("level=WARN"); got > 4 {
		t.Errorf("%d warnings during %d appends on a full disk: %s", got, n, d.String())
	}
	end, err := topic.Bounds(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	heal()
	at, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("after")}}, nil)
	if err != nil || at != end.Next {
		t.Fatalf("with room again: offset %d, %v; expected %d", at, err, end.Next)
	}
	recs, _, err := topic.Read(context.WithoutCancel(t.Context()), 0, at, nil, nil)
	if err != nil || len(recs) != 1 || string(recs[0].Value) != "after" {
		t.Fatalf("%v, %v", recs, err)
	}
}

func TestAFullDiskIsAClearErrorAndFewLinesOfLog(t *testing.T) {
	t.Parallel()
	t.Run("played", func(t *testing.T) {
		t.Parallel()
		mem := vfs.NewMem(1)
		mem.SetCapacity(5 << 20)
		fullAndHealed(t, Config{FS: mem}, func() { mem.SetCapacity(0) })
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		disk, ok := testdisk.Small(t, "6m")
		if !ok {
			t.Log("this user may not mount a file system; the played one has to do")
			return
		}
		dir := disk.Dir
		ballast := filepath.Join(dir, "registry", "ballast") // beside the log
		if err := os.Mkdir(filepath.Dir(ballast), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		fullAndHealed(t, Config{Dir: dir}, func() { _ = os.Remove(ballast) })
	})
}
