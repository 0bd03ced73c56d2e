package filelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/vfs"
)

const childStops = "RINGFENCE_TEST_FILELOG_STOPS"

// stopInsideTheLock appends, and stops itself just before the record is written.
func stopInsideTheLock(dir string) {
	fsys, err := vfs.OpenOS(dir)
	exitOn(err)
	l, err := filelog.Open(context.Background(), filelog.Config{FS: vfs.Inject(fsys, func(op *vfs.Op) error {
		if op.Kind == vfs.OpWrite && bytes.Contains(op.Data, []byte("stopped")) {
			fmt.Println("stopping")
			err := syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			<-time.After(time.Minute) // another thread may get the signal, and this one stop a while later
			return err
		}
		return nil
	})})
	exitOn(err)
	topic, err := l.Topic(context.Background(), "t")
	exitOn(err)
	_, err = topic.Append(context.Background(), 0, []commitlog.Record{{Value: []byte("stopped")}}, nil)
	exitOn(err)
	os.Exit(0)
}

// lineLog passes on what is logged.
type lineLog chan string

func (l lineLog) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func (l lineLog) expect(t *testing.T, texts ...string) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case line := <-l:
			if !strings.Contains(line, texts[0]) {
				continue
			}
			for _, text := range texts {
				if !strings.Contains(line, text) {
					t.Fatalf("the line %q does not say %q", line, text)
				}
			}
			return
		case <-late:
			t.Fatalf("no line says %q", texts[0])
		}
	}
}

// A process that is stopped with the write lock in its hand can't be overruled: what it would do
// when it wakes up is not known. Whoever waits for it says so, once, and goes on when it is gone.
func TestAWriterThatIsStoppedInsideTheLockIsNamedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines := make(lineLog, 1000)
	c := filelog.Config{Dir: dir, Options: driver.Options{Logger: slog.New(slog.NewTextHandler(lines, nil))}}
	topic := openTopic(t, open(t, c), "t", 1)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childStops+"="+dir)
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	if _, err := out.Read(make([]byte, len("stopping\n"))); err != nil {
		t.Fatal(err)
	}
	acked := make(chan error, 1)
	topic.AppendAsync(t.Context(), 0, []commitlog.Record{{Value: []byte("waits")}}, nil, func(_ int64, err error) { acked <- err })
	lines.expect(t, "write lock", "level=WARN", fmt.Sprintf("pid=%d", child.Process.Pid), "kill -CONT", "kill -9")
	again := time.NewTimer(1500 * time.Millisecond) // it would be said again by then
	defer again.Stop()
	select {
	case line := <-lines:
		t.Errorf("said again: %s", line)
	case err := <-acked:
		t.Errorf("an append passed the lock: %v", err)
	case <-again.C:
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-acked; err != nil {
		t.Fatalf("after the holder was killed: %v", err)
	}
	lines.expect(t, "was let go")
}

// Somebody has the write lock and is stopped. A log is closed all the same, and tells its appends that
// they are certainly absent.
func TestCloseDoesNotWaitForAStoppedProcess(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	l := mustOpen(t, filelog.Config{FS: mem.Process()})
	topic := openTopic(t, l, "t", 1)
	send(t, topic, "before", 6)
	lock := hold(t, mem, "log/topics/t/write.lock")
	answered := make(chan error, 2)
	for range 2 {
		topic.AppendAsync(t.Context(), 0, []commitlog.Record{{Value: []byte("waits")}}, nil, func(_ int64, err error) { answered <- err })
	}
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	for range 2 {
		if err := <-answered; !errors.Is(err, commitlog.ErrNotAppended) {
			t.Errorf("an append that never got the lock: %v", err)
		}
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if got := values(t, openTopic(t, open(t, filelog.Config{FS: mem.Process()}), "t", 1), 0); len(got) != 1 {
		t.Errorf("one append was acknowledged and two certainly absent; there is %v", got)
	}
}

// hold takes a kernel lock as another process.
func hold(t *testing.T, mem *vfs.Mem, name string) vfs.File {
	t.Helper()
	f, err := mem.Process().OpenFile(name, os.O_RDWR, 0)
	if err == nil {
		err = f.Lock(true)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}
