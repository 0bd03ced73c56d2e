package group

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testlog"
)

func reporter() (*member, *testlog.Buffer) {
	var out testlog.Buffer
	return &member{cfg: Config{Group: "g", Member: "a", Logger: out.Logger()}}, &out
}

func TestTroubleIsToldOnceAndThenNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, out := reporter()
		told := 0
		m.cfg.Events.Trouble = func(int, string, error) { told++ }
		damaged := fmt.Errorf("offset 7: %w", fault.Corrupt)
		for i := range 25 { // one a second
			m.report(&core.Report{Kind: core.Trouble, Unit: 3, Epoch: 2, Text: fmt.Sprintf("started again in 1.%ds", i), Err: damaged})
			time.Sleep(time.Second)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 || told != 25 {
			t.Fatalf("%d lines and %d events of 25 troubles in 25 s; expected 3 and 25:\n%s", len(lines), told, out)
		}
		if strings.Contains(lines[0], "repeated") || !strings.Contains(lines[1], "repeated=9") || !strings.Contains(lines[2], "repeated=9") {
			t.Errorf("the counts are wrong:\n%s", out)
		}
		for _, want := range []string{"level=ERROR", "partition=3", "group=g", `error="offset 7: corrupt data"`} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("%s lacks %s", lines[0], want)
			}
		}
	})
}

func TestOtherTroubleAndThatOfOtherPartitionsIsToldAtOnce(t *testing.T) {
	t.Parallel()
	m, out := reporter()
	for _, r := range []core.Report{
		{Unit: 1, Text: "stuck"}, {Unit: 1, Text: "stuck"}, {Unit: 2, Text: "stuck"},
		{Unit: 1, Text: "stuck", Err: errors.New("else")}, {Unit: -1, Text: "loading failed; retrying", Err: fault.Unavailable},
	} {
		r.Kind = core.Trouble
		m.report(&r)
	}
	text := out.String()
	if got := strings.Count(text, "\n"); got != 4 {
		t.Errorf("%d lines; expected 4:\n%s", got, text)
	}
	if strings.Contains(text, "nil") || strings.Contains(text, "partition=-1") || strings.Contains(text, "level=ERROR") {
		t.Errorf("what is not known is not left out, or a passing trouble is an error:\n%s", text)
	}
}

func TestAnEpochOfOnesOwnIsNoLoss(t *testing.T) {
	t.Parallel()
	m, out := reporter()
	m.report(&core.Report{Kind: core.Fenced, Unit: 1, Epoch: 4, To: "a", Text: "seek"})
	m.report(&core.Report{Kind: core.Fenced, Unit: 2, Epoch: 4, To: "b", Text: "expired"})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=INFO") || !strings.Contains(lines[1], "level=WARN") || !strings.Contains(lines[1], "to=b") {
		t.Errorf("expected news and a warning:\n%s", out)
	}
}
