package verify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/history"
)

// Seven records of each key were acknowledged, and an eighth was sent of which nobody knows. The judge is told of
// all of them, and of nothing else.
func TestJudgeArrivalsKnowsWhatWasSent(t *testing.T) {
	t.Parallel()
	const good, bad = "p/1", "p/0"
	dir := t.TempDir()
	var lines []byte
	at := int64(0)
	for _, key := range []string{good, bad} {
		for n := int64(1); n <= 8; n++ {
			for _, kind := range []history.Kind{history.Sent, history.Produced} {
				if at++; kind == history.Produced && n == 8 {
					continue
				}
				line, err := json.Marshal(history.Event{Kind: kind, At: at, Member: "p", Key: key, Sequence: n, Offset: n, Value: uint64(at)})
				if err != nil {
					t.Fatal(err)
				}
				lines = append(append(lines, line...), '\n')
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "p.jsonl"), lines, 0o600); err != nil {
		t.Fatal(err)
	}
	upTo := func(key string, n int) (all []history.Arrival) {
		for i := range n {
			all = append(all, history.Arrival{Key: key, Number: i, Place: "0/0/" + string(rune('0'+i))})
		}
		return all
	}
	letters := map[string][]int{bad: {poisonNumber}}
	for name, c := range map[string]struct {
		good, bad int
		failed    map[string][]int
		early     bool
		broken    history.Promise
	}{
		"all of them":                    {good: 7, bad: 7, failed: letters},
		"and those that are not known":   {good: 8, bad: 8, failed: letters},
		"the last one is lost":           {good: 6, bad: 7, failed: letters, broken: history.NotLost},
		"it was not waited for the last": {good: 6, bad: 7, failed: letters, early: true},
		"one that nobody sent":           {good: 9, bad: 7, failed: letters, broken: history.OnlySent},
		"no dead letter":                 {good: 7, bad: 7, broken: history.OneDeadLetter},
		"two of one record":              {good: 7, bad: 7, failed: map[string][]int{bad: {poisonNumber, poisonNumber}}, broken: history.OneDeadLetter},
	} {
		crew := &crew{dir: dir, tally: &tally{taken: append(upTo(good, c.good), upTo(bad, c.bad)...)}, failed: c.failed}
		report, err := crew.judgeArrivals(!c.early)
		if err != nil {
			t.Fatal(err)
		}
		if report.Sent != 16 || c.broken == "" && report.Err() != nil || c.broken != "" && report.Broken[c.broken] != 1 {
			t.Errorf("%s: expected %q to be broken: %s", name, c.broken, report)
		}
	}
}
