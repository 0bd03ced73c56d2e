package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/history"
)

// poison is, by key, the record that is refused until the file "mended" is there.
var poison = map[string]int{"k0": 5, "k1": 9}

// TestDelivererProcess is no test but the body of the processes of those that kill deliverers.
func TestDelivererProcess(t *testing.T) {
	dir := os.Getenv(processDir)
	if dir == "" {
		return // an ordinary run
	}
	rf := openDir(t, ringfence.Config{Dir: dir})
	seen, err := os.OpenFile(filepath.Join(dir, "seen"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	err = rf.Subscribe(t.Context(), "s", func(_ context.Context, m *ringfence.Message) error {
		n, err := strconv.Atoi(string(m.Value))
		if err != nil {
			return ringfence.Permanent(err)
		}
		if bad, ok := poison[string(m.Key)]; ok && bad == n {
			if _, err := os.Stat(filepath.Join(dir, "mended")); err != nil {
				return errors.New("refused")
			}
		}
		if n%6 == 2 && m.Attempt == 1 {
			return errors.New("a hiccup")
		}
		_, err = fmt.Fprintf(seen, "%s %s %s\n", m.Key, m.Value, m.Token())
		return err
	}, &ringfence.SubscribeOptions{SessionTTL: time.Second})
	t.Fatal(err) // it is killed before that
}

// deliverers are processes that deliver the subscription "s" of the topic "a", and are killed and replaced.
type deliverers struct {
	t    *testing.T
	rf   *ringfence.Client
	dir  string
	cmds []*exec.Cmd
	sent int // records of each key
}

const deliveredKeys = 8

// deliverUnderFire makes the topic and the subscription, and starts two processes.
func deliverUnderFire(t *testing.T, partitions, attempts int) *deliverers {
	t.Helper()
	d := &deliverers{t: t, dir: t.TempDir()}
	var err error
	d.rf, err = ringfence.Open(t.Context(), ringfence.Config{Dir: d.dir})
	must(t, err)
	t.Cleanup(func() {
		for len(d.cmds) > 0 {
			d.kill()
		}
		must(t, d.rf.Close())
	})
	must(t, d.rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: partitions}))
	_, err = d.rf.Admin().CreateSubscription(t.Context(), "s", admin.SubscriptionConfig{
		Topic: "a", Retry: admin.Retry{Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond, Attempts: attempts}, Hold: -1,
	})
	must(t, err)
	must(t, os.WriteFile(d.path(), nil, 0o600))
	d.start()
	d.start()
	return d
}

func (d *deliverers) path() string { return filepath.Join(d.dir, "seen") }

// seen is what they have written down, without what comes with a token below the highest of its key: a receiver
// refuses that.
func (d *deliverers) seen() (taken []byte) {
	d.t.Helper()
	data, err := os.ReadFile(d.path())
	must(d.t, err)
	tokens := map[string]string{}
	for line := range strings.Lines(string(data)) {
		at := strings.Fields(line)
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		if len(at) != 3 || len(at[2]) != 32 {
			d.t.Fatalf("line %q; expected a key, a number and a token", line)
		}
		if at[2] >= tokens[at[0]] {
			tokens[at[0]], taken = at[2], fmt.Appendf(taken, "%s %s\n", at[0], at[1])
		}
	}
	return taken
}

// produce appends n more records of each key.
func (d *deliverers) produce(n int) {
	d.t.Helper()
	for range n {
		for k := range deliveredKeys {
			_, err := d.rf.Produce(d.t.Context(), "a", ringfence.Message{Key: fmt.Appendf(nil, "k%d", k), Value: fmt.Append(nil, d.sent)})
			must(d.t, err)
		}
		d.sent++
	}
}

func goodKey(key string) bool { _, bad := poison[key]; return !bad }
func anyKey(string) bool      { return true }

// through says whether the first n records of all those keys were taken. None may come before the one in front
// of it.
func (d *deliverers) through(n int, of func(key string) bool) func() bool {
	return func() bool {
		d.t.Helper()
		next := orderOf(d.t, d.seen())
		for k := range deliveredKeys {
			if key := fmt.Sprintf("k%d", k); of(key) && next[key] < n {
				return false
			}
		}
		return true
	}
}

// letters are the dead letters, those that wait included, and by key those that failed.
func (d *deliverers) letters() (n int, failed map[string][]int) {
	d.t.Helper()
	letters, err := d.rf.Admin().ListDeadLetters(d.t.Context(), "s", nil)
	must(d.t, err)
	failed = map[string][]int{}
	for _, l := range letters {
		if l.Status == api.Failed {
			n, err := strconv.Atoi(l.Value)
			must(d.t, err)
			failed[l.KeyText()] = append(failed[l.KeyText()], n)
		}
	}
	return len(letters), failed
}

// givenUp waits for the dead letters of the poison and all that waits behind them, and returns what failed.
func (d *deliverers) givenUp() (failed map[string][]int) {
	d.t.Helper()
	eventually(d.t, "the dead letters and all behind them", func() bool {
		var n int
		n, failed = d.letters()
		return n == 2*d.sent-poison["k0"]-poison["k1"] && len(failed) == len(poison)
	})
	return failed
}

// mend has the poison taken from now on.
func (d *deliverers) mend() {
	d.t.Helper()
	must(d.t, os.WriteFile(filepath.Join(d.dir, "mended"), nil, 0o600))
}

// redrive mends, and has the dead letters delivered again.
func (d *deliverers) redrive() {
	d.t.Helper()
	d.mend()
	n, err := d.rf.Admin().RedriveDeadLetters(d.t.Context(), "s", nil)
	if must(d.t, err); n != len(poison) {
		d.t.Errorf("redriven: %d", n)
	}
}

// cleared waits until no dead letter is left.
func (d *deliverers) cleared() {
	d.t.Helper()
	eventually(d.t, "no dead letter", func() bool { n, _ := d.letters(); return n == 0 })
}

// judge gives what was seen to the judge, with what had failed.
func (d *deliverers) judge(failed map[string][]int) {
	d.t.Helper()
	a := history.Arrivals{Sent: map[string]int{}, Poison: poison, Failed: failed}
	for k := range deliveredKeys {
		a.Sent[fmt.Sprintf("k%d", k)] = d.sent
	}
	for line := range strings.Lines(string(d.seen())) {
		var at history.Arrival
		if _, err := fmt.Sscanf(line, "%s %d", &at.Key, &at.Number); err != nil {
			d.t.Fatalf("line %q: %v", line, err)
		}
		a.Taken = append(a.Taken, at)
	}
	if err := a.Judge().Err(); err != nil {
		d.t.Error(err)
	}
}

func (d *deliverers) start() {
	d.t.Helper()
	cmd := spawn(d.t, "TestDelivererProcess", d.dir)
	must(d.t, cmd.Start())
	d.cmds = append(d.cmds, cmd)
}

// kill ends the oldest one as kill -9 does.
func (d *deliverers) kill() {
	kill(d.t, d.cmds[0])
	d.cmds = d.cmds[1:]
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
