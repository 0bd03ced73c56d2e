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

// deliverers are processes that deliver a subscription "s" of a topic "a" in a directory, and are killed and
// replaced. Those of poison are two of the keys.
type deliverers struct {
	t    *testing.T
	dir  string
	rf   *ringfence.Client // of who produces, and looks
	keys int
	cmds []*exec.Cmd
}

// newDeliverers starts two. They end with the test.
func newDeliverers(t *testing.T, partitions, keys, attempts int) *deliverers {
	t.Helper()
	dir := t.TempDir()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: dir})
	must(t, err)
	d := &deliverers{t: t, dir: dir, rf: rf, keys: keys}
	t.Cleanup(func() {
		for len(d.cmds) > 0 {
			d.kill()
		}
		if err := rf.Close(); err != nil {
			t.Error(err)
		}
	})
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: partitions}))
	_, err = rf.EnsureSubscription(t.Context(), "s", ringfence.SubscriptionConfig{
		Topic: "a", MaxAttempts: attempts, Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond, Hold: -1,
	})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "seen"), nil, 0o600))
	d.start()
	d.start()
	return d
}

// produce produces the records of those numbers of each key.
func (d *deliverers) produce(from, to int) {
	d.t.Helper()
	for n := from; n < to; n++ {
		for k := range d.keys {
			_, err := d.rf.Produce(d.t.Context(), "a", ringfence.Message{Key: fmt.Appendf(nil, "k%d", k), Value: fmt.Append(nil, n)})
			must(d.t, err)
		}
	}
}

// seen is what was delivered so far.
func (d *deliverers) seen() []byte {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, "seen"))
	must(d.t, err)
	return data
}

// through says whether of some keys so many records were delivered, and fails when they did not come in order.
func (d *deliverers) through(n int, of func(key string) bool) func() bool {
	return func() bool {
		next := orderOf(d.t, d.seen())
		for k := range d.keys {
			if key := fmt.Sprintf("k%d", k); of(key) && next[key] < n {
				return false
			}
		}
		return true
	}
}

// good says whether no record of a key is refused.
func good(key string) bool { _, bad := poison[key]; return !bad }

// anyKey is all of them.
func anyKey(string) bool { return true }

// letters waits until all that the poison holds back is given up or waits behind it, of so many records of each
// key, and checks which of them failed.
func (d *deliverers) letters(all int) {
	d.t.Helper()
	var letters []ringfence.DeadLetter
	eventually(d.t, "the dead letters and all behind them", func() (ok bool) {
		var err error
		letters, err = d.rf.DeadLetters(d.t.Context(), "s", nil)
		must(d.t, err)
		return len(letters) == 2*all-poison["k0"]-poison["k1"]
	})
	failed := 0
	for _, l := range letters {
		if bad := fmt.Sprint(poison[string(l.Key)]) == string(l.Value); bad != l.Failed {
			d.t.Errorf("%s %s, failed: %t", l.Key, l.Value, l.Failed)
		} else if bad {
			failed++
		}
	}
	if failed != len(poison) {
		d.t.Errorf("%d dead letters", failed)
	}
}

// mend has the poison taken from now on, and redrives it.
func (d *deliverers) mend() {
	d.t.Helper()
	must(d.t, os.WriteFile(filepath.Join(d.dir, "mended"), nil, 0o600))
	n, err := d.rf.Redrive(d.t.Context(), "s", nil)
	if must(d.t, err); n != len(poison) {
		d.t.Errorf("redriven: %d", n)
	}
}

// noLetters waits until nothing is held back any more.
func (d *deliverers) noLetters() {
	d.t.Helper()
	eventually(d.t, "no dead letter", func() bool {
		letters, err := d.rf.DeadLetters(d.t.Context(), "s", nil)
		must(d.t, err)
		return len(letters) == 0
	})
}

func (d *deliverers) start() {
	d.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(d.t.Context()), os.Args[0], "-test.run=^TestDelivererProcess$") // the cleanup ends it
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
	const rounds, each = 5, 12
	procs := newDeliverers(t, 3, 8, 6)
	for round := range rounds {
		procs.produce(round*each, (round+1)*each)
		eventually(t, "most records of the good keys", procs.through((round+1)*each-4, good))
		procs.start()
		procs.kill()
	}
	const all = rounds * each
	eventually(t, "all records of the good keys", procs.through(all, good))
	procs.letters(all)
	for key, bad := range poison {
		if next := orderOf(t, procs.seen())[key]; next != bad {
			t.Errorf("of %s %d records were delivered", key, next)
		}
	}
	procs.mend()
	eventually(t, "the redriven records", procs.through(poison["k1"]+1, anyKey))
	procs.start()
	procs.kill()
	eventually(t, "all records", procs.through(all, anyKey))
	procs.noLetters()
}
