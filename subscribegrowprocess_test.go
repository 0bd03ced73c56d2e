package ringfence_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
)

// Members are killed as kill -9 does in the middle of growths of the topic, with a change of the shards between
// two of them, while two keys are parked behind poison. Each key comes through in order, nothing is lost, there is
// one dead letter a poison record, and what is redriven in the end is followed by what waits behind it.
func TestDeliverersKilledInTheMiddleOfGrowthsLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	const keys, each = 8, 12
	partitions := []int{8, 6, 12, 3}
	dir := t.TempDir()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: dir})
	must(t, err)
	defer rf.Close()
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 4}))
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
	produce := func(from, to int) {
		for n := from; n < to; n++ {
			for k := range keys {
				_, err := rf.Produce(t.Context(), "a", ringfence.Message{Key: fmt.Appendf(nil, "k%d", k), Value: fmt.Append(nil, n)})
				must(t, err)
			}
		}
	}
	for turn, count := range partitions {
		produce(turn*each, turn*each+each/2)
		procs.start()
		grow(t, rf, count)
		produce(turn*each+each/2, (turn+1)*each)
		eventually(t, "the place in the growth where one is killed", func() bool {
			d, err := rf.DescribeSubscription(t.Context(), "s")
			must(t, err)
			_, closing := d.Closing()
			return []bool{d.Turning(), closing, d.Set().Pause > 0, true}[turn] || d.Set().Storage == turn+1
		})
		procs.kill()
		info := follows(t, rf, "s", turn+1)
		t.Logf("%d partitions, %d shards: a pause of %d ms", count, info.Set().Shards, info.Set().Pause)
		if turn == 1 {
			_, err := rf.Reshard(t.Context(), "s", 4, nil)
			must(t, err)
			turned(t, rf, "s")
		}
	}
	all := len(partitions) * each
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
	eventually(t, "all records", through(all, func(string) bool { return true }))
}
