package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
)

// Environment of a consumer process.
const (
	consumerDir  = "RINGFENCE_TEST_CONSUMER_DIR"
	consumerName = "RINGFENCE_TEST_CONSUMER_NAME"
)

// TestConsumerProcess is no test but the body of the consumer processes of the one below.
func TestConsumerProcess(t *testing.T) {
	dir := os.Getenv(consumerDir)
	if dir == "" {
		return // an ordinary run
	}
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := os.OpenFile(filepath.Join(dir, "seen"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The lines of all processes stand in the file in the order in which they were written.
	err = rf.Consume(t.Context(), "a", "g", func(_ context.Context, m *ringfence.Message) error {
		_, err := fmt.Fprintf(seen, "%s %s\n", m.Key, m.Value)
		return err
	}, &ringfence.ConsumeOptions{Member: os.Getenv(consumerName), SessionTTL: time.Second})
	t.Fatal(err) // it is killed before that
}

// consumers are processes that are killed and replaced.
type consumers struct {
	t    *testing.T
	dir  string
	next int
	cmds []*exec.Cmd
}

func (c *consumers) start() {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), os.Args[0], "-test.run=^TestConsumerProcess$")
	cmd.Env = append(os.Environ(), consumerDir+"="+c.dir, fmt.Sprintf("%s=m%d", consumerName, c.next))
	c.next++
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.cmds = append(c.cmds, cmd)
}

// replace kills the oldest one, as kill -9 does, and starts another.
func (c *consumers) replace() {
	c.t.Helper()
	c.kill(c.cmds[0])
	c.cmds = c.cmds[1:]
	c.start()
}

func (c *consumers) kill(cmd *exec.Cmd) {
	if err := cmd.Process.Kill(); err != nil {
		c.t.Error(err)
	}
	_ = cmd.Wait() // killed is no news
}

// Consumer processes are killed before, at and after each switch. Records that were in flight may
// come twice, but none is lost, and none comes before its predecessor of the same key.
func TestConsumersKilledAroundSwitchesKeepTheOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer rf.Close()
	if err := rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "seen")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	procs := &consumers{t: t, dir: dir}
	defer func() {
		for _, cmd := range procs.cmds {
			procs.kill(cmd)
		}
	}()
	for range 3 {
		procs.start()
	}
	var src source
	for _, partitions := range []int{10, 20} {
		src.send(t, rf, 20)
		awaitSeen(t, path, src.sent-15) // at work, with a backlog
		procs.replace()
		var switched sync.WaitGroup
		switched.Go(func() { growTopic(t, rf, partitions) })
		procs.replace()
		switched.Wait()
		src.send(t, rf, 20)
		procs.replace()
	}
	awaitSeen(t, path, src.sent)
}

// awaitSeen waits until every key came through to its n-th record, in order.
func awaitSeen(t *testing.T, path string, n int) {
	t.Helper()
	timeout := time.After(40 * time.Second)
	for {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		done := 0
		for key, next := range orderOf(t, data) {
			if next >= n {
				done++
			} else if next < 0 {
				t.Fatalf("key %s is out of order", key)
			}
		}
		if done == growKeys {
			return
		}
		select {
		case <-timeout:
			t.Fatalf("%d of %d keys came through to %d", done, growKeys, n)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// orderOf returns the number that each key expects next. A number may come again, and those after it.
func orderOf(t *testing.T, data []byte) map[string]int {
	t.Helper()
	next := map[string]int{}
	lines := bytes.Split(data, []byte("\n"))
	for _, line := range lines[:len(lines)-1] {
		key, value, _ := strings.Cut(string(line), " ")
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatalf("line %q", line)
		}
		if n > next[key] {
			t.Fatalf("key %s: %d came before %d", key, n, next[key])
		}
		next[key] = max(next[key], n+1)
	}
	return next
}
