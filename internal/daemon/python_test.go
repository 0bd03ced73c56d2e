package daemon_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/testserver"
)

// Consumers in Python that are killed again and again skip no record, and a receiver that keeps the highest token of each
// key sees each key in its order.
func TestKilledPythonConsumersSkipNothing(t *testing.T) {
	t.Parallel()
	const keys, each, kills = 20, 60, 5
	python := testserver.Program(t, "python3")
	s := start(t)
	c := s.as(s.root, "")
	do(t, c, &api.V1.CreateTopic, api.CreateTopic{TopicRef: api.TopicRef{Topic: "a"}, Body: api.NewTopic{Partitions: 4}})
	out := filepath.Join(t.TempDir(), "out")
	consumer := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), python, "testdata/consumer.py", "../../clients/python", s.url, s.root, out)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	kill := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	lines := func() []string {
		text, err := os.ReadFile(out)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	running := []*exec.Cmd{consumer(), consumer()}
	defer func() {
		for _, cmd := range running {
			kill(cmd)
		}
	}()
	for n := range each {
		var batch strings.Builder
		for k := range keys {
			fmt.Fprintf(&batch, "{\"key\":\"k%d\",\"value\":\"%d\"}\n", k, n)
		}
		if status, text := s.raw("POST", "/v1/ns/default/topics/a/records", s.root, batch.String(), "Content-Type", "application/x-ndjson"); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		if n%(each/kills) == each/kills-1 {
			was := len(lines())
			eventually(t, func() bool { return len(lines()) > was || n == each-1 })
			kill(running[0])
			running = append(running[1:], consumer())
		}
	}
	highest, next := map[string]string{}, map[string]int{}
	judged := 0
	eventually(t, func() bool {
		all := lines()
		for _, line := range all[judged:] {
			var token, key string
			var n int
			if _, err := fmt.Sscan(line, &token, &key, &n); err != nil {
				return false // it is being written
			}
			judged++
			if token < highest[key] {
				continue // a receiver refuses it
			}
			highest[key] = token
			if n > next[key] {
				t.Fatalf("of key %s came %d, expected %d or an earlier one again", key, n, next[key])
			}
			next[key] = max(next[key], n+1)
		}
		done := 0
		for _, n := range next {
			done += n
		}
		return done == keys*each
	})
}

// eventually waits for a condition.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatal("it has not come within five minutes")
		}
		time.Sleep(20 * time.Millisecond) // polls other processes
	}
}
