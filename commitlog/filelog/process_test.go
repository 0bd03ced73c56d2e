package filelog_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
)

const (
	childDir   = "RINGFENCE_TEST_FILELOG_DIR"
	childLevel = "RINGFENCE_TEST_FILELOG_LEVEL"
	childName  = "RINGFENCE_TEST_FILELOG_NAME"
)

// TestMain runs the tests, or, in a process started by one of them, an appender.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childStops); dir != "" {
		stopInsideTheLock(dir)
	}
	if dir := os.Getenv(childCounts); dir != "" {
		appendWhenTold(dir)
	}
	if os.Getenv(childDir) != "" {
		appendForEver()
	}
	goleak.VerifyTestMain(m)
}

const procPartitions = 3

// appendForEver appends from several goroutines and prints what was acknowledged, until it is killed.
func appendForEver() {
	l, err := filelog.Open(context.Background(), childConfig(os.Getenv(childDir), driver.Durability(os.Getenv(childLevel))))
	exitOn(err)
	topic, err := l.Topic(context.Background(), "t")
	exitOn(err)
	var mu sync.Mutex
	for g := range 4 {
		go func() {
			for i := 0; ; i++ {
				p := rand.IntN(procPartitions)
				value := fmt.Sprintf("%s/%d/%d", os.Getenv(childName), g, i)
				batch := []commitlog.Record{{Value: []byte(value)}, {Value: []byte(value + "+")}}
				first, err := topic.Append(context.Background(), p, batch, nil)
				exitOn(err)
				mu.Lock()
				fmt.Printf("%d %d %s\n", p, first, value)
				mu.Unlock()
			}
		}()
	}
	select {}
}

func childConfig(dir string, level driver.Durability) filelog.Config {
	return filelog.Config{Dir: dir, SegmentBytes: filelog.MinSegmentBytes, Options: driver.Options{Durability: level}}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

type acked struct {
	partition int
	offset    int64
	value     string
}

// child is an appender in a process of its own.
type child struct {
	cmd   *exec.Cmd
	begun chan struct{} // closed at its first ack
	done  chan struct{}
	acks  []acked // read after done
	errs  strings.Builder
}

func startChild(t *testing.T, dir string, level driver.Durability, name string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0]), begun: make(chan struct{}), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childDir+"="+dir, childLevel+"="+string(level), childName+"="+name)
	c.cmd.Stderr = &c.errs
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.collect(out)
	t.Cleanup(func() { c.kill() })
	return c
}

// collect reads until the process died. A last line that was cut by the kill does not count.
func (c *child) collect(out io.Reader) {
	defer close(c.done)
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		var a acked
		if _, err := fmt.Sscanf(line, "%d %d %s", &a.partition, &a.offset, &a.value); err == nil {
			if c.acks = append(c.acks, a); len(c.acks) == 1 {
				close(c.begun)
			}
		}
	}
}

// awaitAck returns when something was acked to it.
func (c *child) awaitAck(t *testing.T) {
	t.Helper()
	select {
	case <-c.begun:
	case <-c.done:
		t.Fatalf("the appender ended before its first ack: %s", c.errs.String())
	case <-time.After(2 * time.Minute):
		t.Fatal("the appender got no ack")
	}
}

func (c *child) signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) }

// kill is kill -9; it returns when the process is gone and all that it printed was read.
func (c *child) kill() []acked {
	c.signal(syscall.SIGKILL)
	<-c.done
	_ = c.cmd.Wait()
	return c.acks
}

func TestKilledProcessesLoseNothingThatWasAcked(t *testing.T) {
	t.Parallel()
	for _, level := range []driver.Durability{driver.Sync, driver.OS} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			topic := openTopic(t, open(t, childConfig(dir, level)), "t", procPartitions)
			rng := rand.New(rand.NewPCG(1, 2))
			var all []acked
			children := make([]*child, 3)
			for i := range children {
				children[i] = startChild(t, dir, level, fmt.Sprint("first", i))
			}
			for round := range 12 {
				time.Sleep(time.Duration(20+rng.IntN(100)) * time.Millisecond) // the process is killed at a random time
				i := rng.IntN(len(children))
				all = append(all, children[i].kill()...)
				if s := children[i].errs.String(); s != "" {
					t.Fatalf("an appender failed: %s", s)
				}
				children[i] = startChild(t, dir, level, fmt.Sprint("round", round))
			}
			for _, c := range children {
				c.awaitAck(t)
				all = append(all, c.kill()...)
			}
			checkHistory(t, topic, all)
			report, err := filelog.Inspect(t.Context(), childConfig(dir, level), nil)
			if err != nil || report.Damaged() {
				t.Fatalf("the log is damaged: %+v, %v", report, err)
			}
		})
	}
}

// checkHistory reads everything: offsets are dense, each value is there once, batches are whole,
// and what was acknowledged stands where the ack said.
func checkHistory(t *testing.T, topic *commitlog.Topic, all []acked) {
	t.Helper()
	if len(all) == 0 {
		t.Fatal("no appender got an ack")
	}
	at, seen := map[string]int64{}, map[string]bool{}
	for p := range procPartitions {
		bounds, err := topic.Bounds(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		last := ""
		for o := int64(0); o < bounds.Next; {
			recs, next, err := topic.Read(t.Context(), p, o, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range recs {
				v := string(r.Value)
				if r.Offset != o || seen[v] {
					t.Fatalf("partition %d offset %d holds %q; seen before: %v, expected offset %d", p, r.Offset, v, seen[v], o)
				}
				if strings.HasSuffix(v, "+") != (o%2 == 1) || o%2 == 1 && v != last+"+" {
					t.Fatalf("partition %d offset %d: %q follows %q; a batch is torn", p, o, v, last)
				}
				seen[v], at[fmt.Sprint(p, " ", v)], last = true, o, v
				o++
			}
			if next != o {
				t.Fatalf("next is %d after %d", next, o)
			}
		}
	}
	for _, a := range all {
		if got, ok := at[fmt.Sprint(a.partition, " ", a.value)]; !ok || got != a.offset {
			t.Fatalf("%q was acked at partition %d offset %d; found at %d, %v", a.value, a.partition, a.offset, got, ok)
		}
	}
	t.Logf("%d acks, %d records", len(all), len(seen))
}

// A stopped process may be the sync leader: others sync for themselves. One that is stopped with
// the write lock in its hand stops others until it goes on or dies, and nothing is lost.
func TestAStoppedProcessDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	topic := openTopic(t, open(t, childConfig(dir, driver.Sync)), "t", procPartitions)
	c := startChild(t, dir, driver.Sync, "stopped")
	c.awaitAck(t)
	went := 0
	const times = 15
	for i := range times {
		time.Sleep(time.Duration(5+rand.IntN(20)) * time.Millisecond) // the process is stopped at a random time
		c.signal(syscall.SIGSTOP)
		value := fmt.Sprintf("mine%d", i)
		batch := []commitlog.Record{{Value: []byte(value)}, {Value: []byte(value + "+")}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := topic.Append(ctx, i%procPartitions, batch, nil)
		cancel()
		switch {
		case err == nil:
			went++
		case !errors.Is(err, commitlog.ErrUnknown):
			t.Fatal(err)
		}
		c.signal(syscall.SIGCONT)
	}
	if went < times/2 {
		t.Errorf("only %d of %d appends went on while the other process was stopped", went, times)
	}
	checkHistory(t, topic, c.kill())
}
