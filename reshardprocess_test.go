package ringfence_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
)

// Members are killed as kill -9 does in the middle of five turns, while two keys are parked behind poison.
// Each key comes through in order, nothing is lost, there is one dead letter a poison record, and what is
// redriven after all turns is followed by what waits behind it.
func TestDeliverersKilledInTheMiddleOfTurnsLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	const keys, each = 8, 12
	turns := []int{3, 4, 6, 1, 5}
	dir := t.TempDir()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: dir})
	must(t, err)
	defer rf.Close()
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 6}))
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
	for turn, shards := range turns {
		for n := turn * each; n < (turn+1)*each; n++ {
			for k := range keys {
				_, err := rf.Produce(t.Context(), "a", ringfence.Message{Key: fmt.Appendf(nil, "k%d", k), Value: fmt.Append(nil, n)})
				must(t, err)
			}
		}
		eventually(t, "some records of the good keys", through(turn*each+2, good))
		procs.start()
		_, err := rf.Reshard(t.Context(), "s", shards, nil)
		must(t, err)
		eventually(t, "the place in the turn where one is killed", func() bool {
			d, err := rf.DescribeSubscription(t.Context(), "s")
			must(t, err)
			_, closing := d.Closing()
			return []bool{true, closing, d.Set().Pause > 0, !d.Turning(), true}[turn] || !d.Turning()
		})
		procs.kill()
		info := turned(t, rf, "s")
		if info.Set().Shards != shards {
			t.Errorf("%d shards after the turn to %d", info.Set().Shards, shards)
		}
		t.Logf("%d shards: a pause of %d ms", shards, info.Set().Pause)
	}
	all := len(turns) * each
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
	must(t, os.WriteFile(filepath.Join(dir, "mended"), nil, 0o600))
	n, err := rf.Redrive(t.Context(), "s", nil)
	if must(t, err); n != 2 {
		t.Errorf("redriven: %d", n)
	}
	_, err = rf.Reshard(t.Context(), "s", 2, nil) // the orders go along
	must(t, err)
	eventually(t, "all records", through(all, func(string) bool { return true }))
	turned(t, rf, "s")
	eventually(t, "no dead letter", func() bool {
		letters, err := rf.DeadLetters(t.Context(), "s", nil)
		must(t, err)
		return len(letters) == 0
	})
}
