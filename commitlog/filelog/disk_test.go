package filelog_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/testdisk"
)

const childCounts = "RINGFENCE_TEST_FILELOG_COUNTS"

// appendWhenTold appends as many records as each line says, and says how many it has been told of.
func appendWhenTold(dir string) {
	ctx := context.Background()
	l, err := filelog.Open(ctx, filelog.Config{Dir: dir})
	exitOn(err)
	exitOn(l.CreateTopic(ctx, commitlog.TopicConfig{Name: "t", Partitions: 1}))
	topic, err := l.Topic(ctx, "t")
	exitOn(err)
	for n, more := 0, 0; ; {
		if _, err := fmt.Scan(&more); err != nil {
			os.Exit(0)
		}
		for ; more > 0; more-- {
			_, err := topic.Append(ctx, 0, []commitlog.Record{{Value: numbered(n)}}, nil)
			exitOn(err)
			n++
		}
		fmt.Println(n)
	}
}

func numbered(n int) []byte { return fmt.Appendf(nil, "record %d", n) }

// scribe is a process that appends when it is told.
type scribe struct {
	cmd  *exec.Cmd
	in   *os.File
	said *bufio.Scanner
}

func startScribe(t *testing.T, dir string) *scribe {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childCounts+"="+dir)
	cmd.Stderr = os.Stderr
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = r
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	s := &scribe{cmd: cmd, in: w, said: bufio.NewScanner(out)}
	t.Cleanup(s.kill)
	return s
}

// append waits until n more records are acknowledged.
func (s *scribe) append(t *testing.T, n int) {
	t.Helper()
	fmt.Fprintln(s.in, n)
	if !s.said.Scan() {
		t.Fatalf("the process that appends has ended: %v", s.said.Err())
	}
}

func (s *scribe) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = s.in.Close()
}

// holdsNumbered tells whether the log in a directory holds so many records, and gives out the next
// offset once.
func holdsNumbered(t *testing.T, dir string, n int) {
	t.Helper()
	l, err := filelog.Open(t.Context(), filelog.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	topic, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	first, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: numbered(n)}}, nil)
	if err != nil || first != int64(n) {
		t.Errorf("%d records were acknowledged; the next one got offset %d, %v", n, first, err)
	}
	var got []string
	for at := int64(0); at <= int64(n); {
		recs, next, err := topic.Read(t.Context(), 0, at, nil, nil)
		if err != nil || next == at {
			t.Fatalf("read at %d: %v", at, err)
		}
		for _, r := range recs {
			got = append(got, string(r.Value))
		}
		at = next
	}
	for i := range n + 1 {
		if len(got) <= i || got[i] != string(numbered(i)) {
			t.Fatalf("%d records were acknowledged; it holds %q", n, got)
		}
	}
}

// The kernel writes a disk's dirty pages when it likes, and after an error never: the control page
// is then older than the segments, on the same host in the same boot.
func TestAnErrorOfTheFileSystemTakesNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	for name, hurt := range map[string]func(*testdisk.Disk, testing.TB){
		"error": (*testdisk.Disk).Break,
		"cut":   (*testdisk.Disk).Cut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := testdisk.Mount(t, "ext4", 64, "errors=remount-ro")
			s := startScribe(t, disk.Dir)
			s.append(t, 3)
			disk.Sync(t)
			s.append(t, 5)
			hurt(disk, t)
			s.kill()
			disk.Unmount(t)
			disk.Check(t)
			disk.Remount(t)
			holdsNumbered(t, disk.Dir, 8)
		})
	}
}

// A snapshot of the disk of a log that is in use, attached to the same host, is a log of its own.
func TestASnapshotHoldsWhatWasAcknowledgedBeforeIt(t *testing.T) {
	t.Parallel()
	disk := testdisk.Mount(t, "ext4", 64)
	s := startScribe(t, disk.Dir)
	s.append(t, 3)
	disk.Sync(t)
	s.append(t, 5)
	snapshot := disk.Snapshot(t)
	s.append(t, 2)
	holdsNumbered(t, snapshot.Dir, 8)
	s.append(t, 2)
	s.kill()
	holdsNumbered(t, disk.Dir, 12)
}
