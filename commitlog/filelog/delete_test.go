package filelog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

func wantErr(t *testing.T, what string, err, want error, texts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v; expected %v", what, err, want)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %q does not say %q", what, err, text)
		}
	}
}

func put(t *testing.T, topic *commitlog.Topic, n int) {
	t.Helper()
	for range n {
		if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("x")}}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func wantBounds(t *testing.T, topic *commitlog.Topic, first, next int64) {
	t.Helper()
	if b, err := topic.Bounds(t.Context(), 0); err != nil || b.First != first || b.Next != next {
		t.Errorf("bounds %+v, %v; expected %d to %d", b, err, first, next)
	}
}

// gateway stops one operation of a process until it is let go.
type gateway struct {
	match   func(*vfs.Op) bool
	reached chan struct{}
	release chan struct{}
	once    sync.Once
}

func newGateway(kind vfs.OpKind, part string) *gateway {
	return &gateway{
		match:   func(op *vfs.Op) bool { return op.Kind == kind && strings.Contains(op.Name, part) },
		reached: make(chan struct{}), release: make(chan struct{}),
	}
}

func (g *gateway) hook(op *vfs.Op) error {
	if g.match(op) {
		g.once.Do(func() {
			close(g.reached)
			<-g.release
		})
	}
	return nil
}

// A call that began before its topic was deleted ends after another of that name was made.
func TestACallThatWaitedActsOnNoOtherLife(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		stop *gateway
		call func(context.Context, *commitlog.Topic) error
	}{
		{"trim for the lock", newGateway(vfs.OpLock, "meta.lock"), func(ctx context.Context, topic *commitlog.Topic) error { return topic.Trim(ctx, 0, 3) }},
		{"trim half way", newGateway(vfs.OpOpen, "trim.tmp"), func(ctx context.Context, topic *commitlog.Topic) error { return topic.Trim(ctx, 0, 3) }},
		{"hold half way", newGateway(vfs.OpRename, "hold-"), func(ctx context.Context, topic *commitlog.Topic) error { return topic.Hold(ctx, "g", []int64{0}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem(1)
			old := openTopic(t, open(t, filelog.Config{FS: vfs.Inject(mem.Process(), c.stop.hook)}), "t", 1)
			put(t, old, 5)
			result := make(chan error, 1)
			go func() { result <- c.call(t.Context(), old) }()
			<-c.stop.reached
			other := open(t, filelog.Config{FS: mem})
			if err := other.DeleteTopic(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
			fresh := openTopic(t, other, "t", 1)
			put(t, fresh, 5)
			close(c.stop.release)
			wantErr(t, c.name, <-result, commitlog.ErrNotFound)
			wantBounds(t, fresh, 0, 5)
			for _, name := range names(t, mem, "log/topics/t") {
				if name == "trim" || strings.HasPrefix(name, "hold-") {
					t.Errorf("the new topic was given the file %s", name)
				}
			}
		})
	}
}

// Who deleted a topic, and was slow to clean up, finds that another cleaned up and made one of that
// name: it takes nothing away from it.
func TestWhoCleansUpLateLeavesTheNextLife(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	var deleted atomic.Bool
	stop := &gateway{reached: make(chan struct{}), release: make(chan struct{}), match: func(op *vfs.Op) bool {
		if op.Kind == vfs.OpRename && strings.Contains(op.Name, "topics/t/") {
			deleted.Store(true)
		}
		return deleted.Load() && op.Kind == vfs.OpOpen && strings.HasSuffix(op.Name, "log/lock")
	}}
	slow := open(t, filelog.Config{FS: vfs.Inject(mem.Process(), stop.hook)})
	other := open(t, filelog.Config{FS: mem})
	put(t, openTopic(t, other, "t", 1), 3)
	result := make(chan error, 1)
	go func() { result <- slow.DeleteTopic(t.Context(), "t") }()
	<-stop.reached
	if err := other.DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	put(t, openTopic(t, other, "t", 1), 5)
	close(stop.release)
	if err := <-result; err != nil {
		t.Errorf("the slow deletion: %v", err)
	}
	wantBounds(t, openTopic(t, open(t, filelog.Config{FS: mem.Process()}), "t", 1), 0, 5)
}

// A deletion whose deleter died before it was durable is ended by the next one, which answers only
// when it is, also when it can't clean up.
func TestADeletionThatIsEndedByAnotherIsDurable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		mem := vfs.NewMem(seed)
		broken := func(kind vfs.OpKind, part string) *commitlog.Log {
			return open(t, filelog.Config{FS: vfs.Inject(mem.Process(), func(op *vfs.Op) error {
				if op.Kind == kind && strings.Contains(op.Name, part) {
					return syscall.EIO
				}
				return nil
			})})
		}
		put(t, openTopic(t, open(t, filelog.Config{FS: mem.Process()}), "t", 1), 3)
		wantErr(t, "delete", broken(vfs.OpSyncDir, "topics/t").DeleteTopic(t.Context(), "t"), commitlog.ErrUnknown)
		if err := broken(vfs.OpRename, "tmp/old-").DeleteTopic(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		_, err := open(t, filelog.Config{FS: mem.Crash()}).Topic(t.Context(), "t")
		wantErr(t, "open after a power loss", err, commitlog.ErrNotFound)
	}
}

func names(t *testing.T, fsys vfs.FS, dir string) (list []string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// The deletion happens in one step; before it the topic is whole, and after it, gone for ever.
func TestADeletionThatFailsHalfWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		kind    vfs.OpKind
		file    string
		want    error
		deleted bool
		durable bool
	}{
		{"at the lock", vfs.OpLock, "t/write.lock", commitlog.ErrUnavailable, false, false},
		{"at the step", vfs.OpRename, "t/deleted", fault.NotDone, false, false},
		{"before the step is durable", vfs.OpSyncDir, "topics/t", commitlog.ErrUnknown, true, false},
		{"when the name is freed", vfs.OpRename, "tmp/old-", nil, true, true},
		{"when files are removed", vfs.OpRemove, "tmp/old-", nil, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem(1)
			bystander := openTopic(t, open(t, filelog.Config{FS: mem.Process()}), "t", 1)
			put(t, bystander, 3)
			broken := true
			l := open(t, filelog.Config{FS: vfs.Inject(mem, func(op *vfs.Op) error {
				if broken && op.Kind == c.kind && strings.Contains(op.Name, c.file) {
					return syscall.EIO
				}
				return nil
			})})
			err := l.DeleteTopic(t.Context(), "t")
			if c.want == nil && err != nil {
				t.Errorf("delete: %v", err)
			} else if c.want != nil {
				wantErr(t, "delete", err, c.want)
			}
			broken = false
			if c.durable {
				for range 20 {
					after := open(t, filelog.Config{FS: mem.Crash()})
					_, err := after.Topic(t.Context(), "t")
					wantErr(t, "open after a power loss", err, commitlog.ErrNotFound)
				}
			}
			_, err = l.Topic(t.Context(), "t")
			if !c.deleted {
				if err != nil {
					t.Errorf("open what is not deleted: %v", err)
				}
				put(t, bystander, 1)
				wantBounds(t, bystander, 0, 4)
				return
			}
			wantErr(t, "open what is deleted", err, commitlog.ErrNotFound)
			_, err = bystander.Bounds(t.Context(), 0)
			wantErr(t, "bounds of what is deleted", err, commitlog.ErrNotFound)
			wantErr(t, "wait for what is deleted", bystander.Wait(t.Context(), 0, 10), commitlog.ErrNotFound)
			fresh := openTopic(t, l, "t", 1)
			put(t, fresh, 1)
			wantBounds(t, fresh, 0, 1)
		})
	}
}

// A stopped process holds up the deletion of the topic that it writes to, as long as its caller
// has patience, and nothing else.
func TestADeletionThatWaitsHoldsUpNobody(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	lines := make(lineLog, 1000)
	l := open(t, filelog.Config{FS: mem, Options: driver.Options{Logger: slog.New(slog.NewTextHandler(lines, nil))}})
	topic := openTopic(t, l, "t", 1)
	put(t, topic, 1)
	stopped, err := mem.Process().OpenFile("log/topics/t/write.lock", os.O_RDWR, 0)
	if err == nil {
		err = stopped.Lock(true)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- l.DeleteTopic(ctx, "t") }()
	lines.expect(t, "write lock", "level=WARN", "topic=t", fmt.Sprintf("pid=%d", os.Getpid()), "kill -CONT")
	other := openTopic(t, l, "other", 1)
	put(t, other, 1)
	if err := l.DeleteTopic(t.Context(), "other"); err != nil {
		t.Errorf("delete another topic: %v", err)
	}
	cancel()
	wantErr(t, "a deletion that was given up", <-result, context.Canceled, fmt.Sprintf("process %d", os.Getpid()))
	if err := stopped.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, topic, 1)
	wantBounds(t, topic, 0, 2)
	if err := l.DeleteTopic(t.Context(), "t"); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// What a crash left of topics goes when the log is opened; what somebody may be making stays.
func TestLeftoversOfTopicsAreRemoved(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	openTopic(t, open(t, filelog.Config{FS: mem}), "t", 1)
	leave := func(dir string) {
		if err := mem.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"deleted", "0000000000000001.seg"} {
			f, err := mem.OpenFile(dir+"/"+name, os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
	leave("log/tmp/old-1")
	leave("log/tmp/new-2")
	maker, err := mem.Process().OpenFile("log/lock", os.O_RDWR, 0)
	if err == nil {
		err = maker.Lock(true)
	}
	if err != nil {
		t.Fatal(err)
	}
	open(t, filelog.Config{FS: mem})
	if left := fmt.Sprint(names(t, mem, "log/tmp")); left != "[new-2]" {
		t.Errorf("while somebody makes a topic %s is left; expected what may be it", left)
	}
	if err := maker.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, filelog.Config{FS: mem})
	if left := names(t, mem, "log/tmp"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A topic file that is damaged costs its topic, says how to go on, and costs no other.
func TestADamagedTopicFileCostsOnlyItself(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(vfs.FS) error{
		"a flipped bit": func(d vfs.FS) error { return overwrite(d, "topic", 30, []byte{0xff}) },
		"of absurd size": func(d vfs.FS) error {
			f, err := d.OpenFile("topic", os.O_RDWR, 0)
			if err != nil {
				return err
			}
			return errors.Join(f.Truncate(1<<50), f.Close())
		},
		"missing": func(d vfs.FS) error { return d.Remove("topic") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem(1)
			lines := make(lineLog, 1000)
			l := open(t, filelog.Config{FS: mem, Options: driver.Options{Logger: slog.New(slog.NewTextHandler(lines, nil))}})
			put(t, openTopic(t, l, "fine", 1), 2)
			if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "bad", Partitions: 1}); err != nil {
				t.Fatal(err)
			}
			dir, err := mem.OpenDir("log/topics/bad")
			if err == nil {
				err = errors.Join(damage(dir), dir.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			list, err := l.Topics(t.Context())
			if err != nil || len(list) != 1 || list[0].Name != "fine" {
				t.Errorf("topics %+v, %v; expected the sound one", list, err)
			}
			lines.expect(t, "left out", "level=ERROR", "topic=bad", "log/topics/bad/topic")
			_, err = l.Topic(t.Context(), "bad")
			wantErr(t, "open", err, commitlog.ErrCorrupt, "log/topics/bad/topic", "topic delete")
			err = l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "bad", Partitions: 1})
			wantErr(t, "make it", err, commitlog.ErrCorrupt, "topic delete")
			r, err := filelog.Inspect(t.Context(), filelog.Config{FS: mem}, nil)
			if err != nil || len(r.Topics) != 2 || len(r.Topics[0].Damage) != 1 || len(r.Topics[1].Damage) != 0 || !r.Damaged() {
				t.Errorf("inspected: %+v, %v", r, err)
			} else if d := r.Topics[0].Damage[0]; !strings.HasSuffix(d.File, "log/topics/bad/topic") || !strings.Contains(d.Detail, "topic delete") {
				t.Errorf("the damage %+v does not say what to do", d)
			}
			if err := l.DeleteTopic(t.Context(), "bad"); err != nil {
				t.Errorf("delete: %v", err)
			}
			put(t, openTopic(t, l, "bad", 1), 1)
			if left := names(t, mem, "log/tmp"); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func overwrite(fsys vfs.FS, name string, off int64, b []byte) error {
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, off)
	return errors.Join(err, f.Close())
}
