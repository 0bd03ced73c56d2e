package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPlayedDemoKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	var story strings.Builder
	r, err := Run(t.Context(), Config{Partitions: 5, Consumers: 3, Messages: 600, InProcess: true, Fresh: true, Dir: t.TempDir(), Out: &story})
	if err != nil {
		t.Fatalf("%v\n%s", err, &story)
	}
	if r.Produced != 600 || r.Delivered != 600 || r.Lost != 0 || r.Reordered != 0 || r.StaleCommits == 0 || r.StaleRefused != r.StaleCommits {
		t.Errorf("%+v", r)
	}
	for _, scene := range []string{"kill -9 A (played)", "A comes back", "SIGSTOP C (played)", "ok   0 lost"} {
		if !strings.Contains(story.String(), scene) {
			t.Errorf("the story does not tell %q:\n%s", scene, &story)
		}
	}
}

func TestPlayedDemoWithMoreConsumersThanPartitions(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), Config{Partitions: 2, Consumers: 4, Messages: 200, InProcess: true, Fresh: true, Dir: t.TempDir()})
	if err != nil {
		t.Fatalf("%v %+v", err, r)
	}
	if r.MovedOnReturn != 0 {
		t.Errorf("%d partitions moved to a member that has nothing to do", r.MovedOnReturn)
	}
}

func TestDemoThatIsInterruptedLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out := writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "comes back") {
			cancel()
		}
		return len(p), nil
	})
	_, err := Run(ctx, Config{Partitions: 2, Consumers: 2, Messages: 200, InProcess: true, Fresh: true, Dir: t.TempDir(), Out: out})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; expected that it was cancelled", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestDemoRefusesWhatItCannotTell(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), Config{Partitions: 0, Consumers: 1, Messages: 1, Dir: t.TempDir()})
	for _, what := range []string{"partitions is 0", "consumers is 1", "messages is 1"} {
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v does not say %q", err, what)
		}
	}
}

// The judge must be able to condemn: a history that misses the end of one record is a lost record.
func TestJudgeFindsALostRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		forge  func(lines []string) []string
		broken string
	}{
		"as it was":      {func(l []string) []string { return l }, ""},
		"nobody handled": {func(l []string) []string { return without(l, `"kind":"end"`) }, string(history.NotLost)},
		"two owners": {func(l []string) []string {
			forged := strings.Replace(first(l, `"kind":"owned"`), `"member":"A"`, `"member":"B"`, 1)
			return append(l, strings.Replace(forged, `"at":`, `"at":9`, 1))
		}, string(history.OneOwner)},
		"a stale commit was accepted": {func(l []string) []string {
			next := strings.Replace(first(l, `"kind":"owned"`), `"epoch":`, `"epoch":1`, 1)
			commit := first(l, `"kind":"commit"`)
			return append(l, strings.Replace(next, `"at":`, `"at":8`, 1), strings.Replace(commit, `"at":`, `"at":9`, 1))
		}, string(history.Fence)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			lines := c.forge([]string{
				`{"kind":"owned","at":100,"member":"A","incarnation":"1","unit":0,"epoch":1}`,
				`{"kind":"produced","at":200,"partition":0,"offset":0,"key":"k"}`,
				`{"kind":"start","at":300,"member":"A","incarnation":"1","unit":0,"epoch":1,"partition":0,"offset":0,"key":"k"}`,
				`{"kind":"end","at":400,"member":"A","incarnation":"1","unit":0,"epoch":1,"partition":0,"offset":0,"key":"k"}`,
				`{"kind":"commit","at":500,"member":"A","incarnation":"1","unit":0,"epoch":1,"positions":[{"storage":0,"partition":0,"next":0}]}`,
			})
			if err := os.MkdirAll(filepath.Join(dir, "history"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "history", "A-1.jsonl"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			st := &stage{Config: &Config{Dir: dir}, screen: screen{began: time.Now()}, result: Result{StaleCommits: 1, StaleRefused: 1}}
			err := st.judge()
			if c.broken == "" {
				if err != nil {
					t.Errorf("condemned though nothing is wrong: %v %v", err, st.result.Broken)
				}
				return
			}
			if !errors.Is(err, ErrBroken) || !strings.Contains(strings.Join(st.result.Broken, "\n"), c.broken) {
				t.Errorf("error %v, broken %q; expected %q", err, st.result.Broken, c.broken)
			}
		})
	}
}

func TestJudgeWantsToSeeStaleCommitsRefused(t *testing.T) {
	t.Parallel()
	for _, r := range []Result{{}, {StaleCommits: 2, StaleRefused: 1}} {
		st := &stage{Config: &Config{Dir: t.TempDir()}, screen: screen{began: time.Now()}, result: r}
		if err := st.judge(); !errors.Is(err, ErrBroken) {
			t.Errorf("%d of %d stale commits refused: %v; expected a broken promise", r.StaleRefused, r.StaleCommits, err)
		}
	}
}

func first(lines []string, kind string) string {
	for _, l := range lines {
		if strings.Contains(l, kind) {
			return l
		}
	}
	return ""
}

func without(lines []string, kind string) (rest []string) {
	for _, l := range lines {
		if !strings.Contains(l, kind) {
			rest = append(rest, l)
		}
	}
	return rest
}
