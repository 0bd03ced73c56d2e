package filelog_test

import (
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/vfs"
)

// The maker of a topic may be killed before the topic's name is durable. What others append to it is
// acknowledged, and stays through a power loss.
func TestATopicWhoseMakerWasKilledStays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		mem := vfs.NewMem(seed)
		maker := open(t, filelog.Config{FS: vfs.Inject(mem, func(op *vfs.Op) error {
			if op.Kind == vfs.OpSyncDir && op.Name == "log/topics" {
				mem.Kill()
				return vfs.ErrKilled
			}
			return nil
		})})
		if err := maker.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 1}); err == nil {
			t.Fatal("a process that was killed made a topic")
		}
		topic, err := open(t, smallSegments(mem.Process(), driver.Sync)).Topic(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		send(t, topic, "kept", 10)
		again, err := open(t, smallSegments(mem.Crash(), driver.Sync)).Topic(t.Context(), "t")
		if err != nil {
			t.Fatalf("seed %d: after a power loss: %v", seed, err)
		}
		wantBounds(t, again, 0, 1)
	}
}

// A trim file that can't be read for a moment is no reason to forget what was trimmed.
func TestATrimThatCannotBeReadIsKept(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	l := open(t, smallSegments(mem, driver.Sync))
	topic := openTopic(t, l, "t", 1)
	put(t, topic, 5)
	if err := topic.Trim(t.Context(), 0, 3); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	failing := vfs.Inject(mem.Process(), func(op *vfs.Op) error {
		if op.Kind == vfs.OpOpen && strings.HasSuffix(op.Name, "/trim") {
			return syscall.EMFILE
		}
		return nil
	})
	_, err := open(t, smallSegments(failing, driver.Sync)).Topic(t.Context(), "t")
	wantErr(t, "opening", err, commitlog.ErrUnavailable, "/trim")
	if topic, err = open(t, smallSegments(mem.Process(), driver.Sync)).Topic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	wantBounds(t, topic, 3, 5)
}

// Of appends that a producer sends one behind the other, the seal refuses all, not only the first.
func TestASealRefusesAllThatAProducerSends(t *testing.T) {
	t.Parallel()
	topic := openTopic(t, open(t, smallSegments(vfs.NewMem(1), driver.Sync)), "t", 1)
	if _, err := topic.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range int64(3) {
		o := &commitlog.AppendOptions{Producer: commitlog.Producer{ID: 1, Sequence: n}}
		_, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("late")}}, o)
		wantErr(t, "an append to a sealed topic", err, commitlog.ErrSealed)
	}
}

// A topic without any segment is not sound, also where no page tells what it held.
func TestInspectSeesThatNoSegmentIsThere(t *testing.T) {
	t.Parallel()
	for _, left := range []struct{ control, oldest bool }{{true, true}, {false, true}, {false, false}} {
		mem := vfs.NewMem(1)
		l := open(t, smallSegments(mem, driver.Sync))
		put(t, openTopic(t, l, "t", 1), 5)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if !left.oldest {
			if err := mem.Remove("log/topics/t/oldest-0000000000000001"); err != nil {
				t.Fatal(err)
			}
		}
		if !left.control {
			if err := mem.Remove("log/topics/t/control"); err != nil {
				t.Fatal(err)
			}
			if err := cut(mem, "log/topics/t/control"); err != nil {
				t.Fatal(err)
			}
		}
		for _, lose := range []func(vfs.FS, string) error{cut, vfs.FS.Remove} {
			if err := lose(mem, segmentPath(1)); err != nil {
				t.Fatal(err)
			}
			report, err := filelog.Inspect(t.Context(), filelog.Config{FS: mem}, nil)
			if err != nil || !report.Damaged() {
				t.Errorf("of control page and name %+v: %+v, %v; expected damage", left, report, err)
			}
		}
	}
}

// cut makes a file an empty one.
func cut(fsys vfs.FS, name string) error { return cutTo(fsys, name, 0) }

func cutTo(fsys vfs.FS, name string, size int64) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// Segments that are dropped while they are looked at are no damage, and no error.
func TestInspectGoesOnWhileSegmentsAreDropped(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	next := rolled(t, mem)
	topic, err := open(t, smallSegments(mem.Process(), driver.Sync)).Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	looked := vfs.Inject(mem.Process(), func(op *vfs.Op) error {
		if op.Kind == vfs.OpOpen && strings.HasSuffix(op.Name, ".seg") {
			once.Do(func() { err = topic.Trim(t.Context(), 0, next-1) })
		}
		return nil
	})
	report, inspected := filelog.Inspect(t.Context(), filelog.Config{FS: looked}, nil)
	if err != nil || inspected != nil || report.Damaged() {
		t.Errorf("trim: %v; inspect: %+v, %v", err, report, inspected)
	}
}
