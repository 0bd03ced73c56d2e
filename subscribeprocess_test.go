package ringfence_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
)

// Environment of a process that delivers a subscription.
const delivererDir = "RINGFENCE_TEST_DELIVERER_DIR"

// poison is, by key, the record that is refused until the file "mended" is there.
var poison = map[string]int{"k0": 5, "k1": 9}

// TestDelivererProcess is no test but the body of the processes of the one below.
func TestDelivererProcess(t *testing.T) {
	dir := os.Getenv(delivererDir)
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
		_, err = fmt.Fprintf(seen, "%s %s\n", m.Key, m.Value)
		return err
	}, &ringfence.SubscribeOptions{SessionTTL: time.Second})
	t.Fatal(err) // it is killed before that
}

// deliverers are processes that are killed and replaced.
type deliverers struct {
	t    *testing.T
	dir  string
	cmds []*exec.Cmd
}

func (d *deliverers) start() {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), os.Args[0], "-test.run=^TestDelivererProcess$")
	cmd.Env = append(os.Environ(), delivererDir+"="+d.dir)
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.cmds = append(d.cmds, cmd)
}

// kill ends the oldest one as kill -9 does.
func (d *deliverers) kill() {
	if err := d.cmds[0].Process.Kill(); err != nil {
		d.t.Error(err)
	}
	_ = d.cmds[0].Wait() // killed is no news
	d.cmds = d.cmds[1:]
}

// Members are killed while two keys are parked behind poison, while those become dead letters, and while
// they are redriven. Each key comes through in order, nothing is lost, and there is one dead letter a
// poison record.
func TestDeliverersKilledOverParkedKeysLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	const keys, rounds, each = 8, 5, 12
	dir := t.TempDir()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer rf.Close()
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 3}))
	_, err = rf.EnsureSubscription(t.Context(), "s", ringfence.SubscriptionConfig{
		Topic: "a", MaxAttempts: 6, Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond, Hold: -1,
	})
	must(t, err)
	path := filepath.Join(dir, "seen")
	must(t, os.WriteFile(path, nil, 0o600))
	procs := &deliverers{t: t, dir: dir}
	defer func() {
		for len(procs.cmds) > 0 {
			procs.kill()
		}
	}()
	procs.start()
	procs.start()
	through := func(n int, of func(key string) bool) func() bool {
		return func() bool {
			data, err := os.ReadFile(path)
			must(t, err)
			next := orderOf(t, data)
			for k := range keys {
				if key := fmt.Sprintf("k%d", k); of(key) && next[key] < n {
					return false
				}
			}
			return true
		}
	}
	good := func(key string) bool { _, bad := poison[key]; return !bad }
	for round := range rounds {
		for n := round * each; n < (round+1)*each; n++ {
			for k := range keys {
				_, err := rf.Produce(t.Context(), "a", ringfence.Message{Key: fmt.Appendf(nil, "k%d", k), Value: fmt.Append(nil, n)})
				must(t, err)
			}
		}
		eventually(t, "most records of the good keys", through((round+1)*each-4, good))
		procs.start()
		procs.kill()
	}
	const all = rounds * each
	eventually(t, "all records of the good keys", through(all, good))
	var letters []ringfence.DeadLetter
	eventually(t, "the dead letters and all behind them", func() bool {
		letters, err = rf.DeadLetters(t.Context(), "s", nil)
		must(t, err)
		return len(letters) == 2*all-poison["k0"]-poison["k1"]
	})
	failed := 0
	for _, l := range letters {
		if bad := fmt.Sprint(poison[string(l.Key)]) == string(l.Value); bad != l.Failed {
			t.Errorf("%s %s, failed: %t", l.Key, l.Value, l.Failed)
		} else if bad {
			failed++
		}
	}
	if failed != len(poison) {
		t.Errorf("%d dead letters", failed)
	}
	data, err := os.ReadFile(path)
	must(t, err)
	for key, bad := range poison {
		if next := orderOf(t, data)[key]; next != bad {
			t.Errorf("of %s %d records were delivered", key, next)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "mended"), nil, 0o600))
	n, err := rf.Redrive(t.Context(), "s", nil)
	if must(t, err); n != 2 {
		t.Errorf("redriven: %d", n)
	}
	eventually(t, "the redriven records", through(poison["k1"]+1, func(string) bool { return true }))
	procs.start()
	procs.kill()
	eventually(t, "all records", through(all, func(string) bool { return true }))
	eventually(t, "no dead letter", func() bool {
		letters, err := rf.DeadLetters(t.Context(), "s", nil)
		must(t, err)
		return len(letters) == 0
	})
}
