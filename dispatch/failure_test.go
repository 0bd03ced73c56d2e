package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/testlog"
)

func failure(outcome dispatch.Outcome, key string, offset int64) dispatch.Failure {
	return dispatch.Failure{Outcome: outcome, Topic: "t", Offset: offset, Key: []byte(key), Attempt: 1, Err: fmt.Errorf("no %d", offset)}
}

func TestTellerTellsTheFirstOfEachOutcomeAndKeyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log testlog.Buffer
		teller := dispatch.NewTeller(log.Logger(), nil)
		defer teller.Close()
		teller.Tell(failure(dispatch.TriedAgain, "a", 1))
		teller.Tell(failure(dispatch.TriedAgain, "a", 1)) // with the summary
		teller.Tell(failure(dispatch.TriedAgain, "b", 2))
		teller.Tell(failure(dispatch.DeadLetter, "a", 1))
		for _, want := range []string{`outcome="tried again" topic=t storage=0 partition=0 offset=1 key=a attempt=1 error="no 1"`, "offset=2 key=b", `outcome="dead letter"`} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("log %q has no %s", log.String(), want)
			}
		}
		if n := log.Count("level=WARN"); n != 3 {
			t.Errorf("%d lines; expected 3: %s", n, log.String())
		}
	})
}

func TestTellerSumsUpTheRestWithTheNewest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log testlog.Buffer
		teller := dispatch.NewTeller(log.Logger(), nil)
		defer teller.Close()
		for n := range int64(1000) { // an outage: each of another key
			teller.Tell(failure(dispatch.TriedAgain, fmt.Sprint(n), n))
		}
		teller.Tell(failure(dispatch.DeadLetter, "x", 7))
		if n := log.Count("\n"); n > 30 || log.Count(`outcome="dead letter"`) != 1 {
			t.Fatalf("%d lines, and the dead letter %d times: %s", n, log.Count(`outcome="dead letter"`), log.String())
		}
		at := log.Count("\n")
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if !strings.Contains(log.String(), fmt.Sprintf(`msg="more records failed; this is the newest" failures=%d outcome="tried again"`, 1001-at)) || !strings.Contains(log.String(), "offset=999 key=999") {
			t.Errorf("log %q does not sum up %d failures with the newest", log.String(), 1001-at)
		}
		log.Reset()
		time.Sleep(time.Minute)
		teller.Tell(failure(dispatch.TriedAgain, "999", 999)) // has not succeeded since
		if log.String() != "" {
			t.Errorf("it is told at once again: %s", log.String())
		}
		teller.Close()
		if log.Count("failures=1 ") != 1 {
			t.Errorf("log %q; expected what was left at the end", log.String())
		}
	})
}

func TestTellerTellsAKeyAnewAfterAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log testlog.Buffer
		teller := dispatch.NewTeller(log.Logger(), nil)
		defer teller.Close()
		teller.Tell(failure(dispatch.TriedAgain, "a", 1))
		time.Sleep(6 * time.Minute)
		teller.Tell(failure(dispatch.TriedAgain, "a", 2))
		if log.Count(`msg="a record failed"`) != 2 {
			t.Errorf("log %q; expected two lines at once", log.String())
		}
	})
}

func TestTellerBoundsAndQuotesWhatItShows(t *testing.T) {
	t.Parallel()
	var log testlog.Buffer
	teller := dispatch.NewTeller(log.Logger(), nil)
	teller.Tell(dispatch.Failure{Outcome: dispatch.Parked, Key: []byte(strings.Repeat("ä", 1000)), Err: errors.New(strings.Repeat("e", 1<<20))})
	teller.Tell(dispatch.Failure{Outcome: dispatch.Parked, Key: []byte("\xff\x1b[2J"), Err: errors.New("no")})
	teller.Close()
	if n := len(log.String()); n > 2000 || !strings.Contains(log.String(), "ä…") || !strings.Contains(log.String(), `\\xff\\x1b[2J`) {
		t.Errorf("%d bytes: %.1500s", n, log.String())
	}
}

func TestTellerWatchesAHandler(t *testing.T) {
	t.Parallel()
	var got []dispatch.Failure
	var log testlog.Buffer
	teller := dispatch.NewTeller(log.Logger(), func(f dispatch.Failure) { got = append(got, f) })
	defer teller.Close()
	wrong := errors.New("wrong")
	var answer error
	h := teller.Watch("orders", func(context.Context, *dispatch.Record) error { return answer })
	r := &dispatch.Record{Record: commitlog.Record{Offset: 4, Key: []byte("k")}, Storage: 1, Partition: 2, Attempt: 3}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx context.Context
		err error
	}{{t.Context(), nil}, {ended, wrong}, {t.Context(), wrong}, {t.Context(), wrong}} {
		if answer = c.err; h(c.ctx, r) != c.err {
			t.Error("the answer is another one")
		}
	}
	if len(got) != 2 || got[1].Topic != "orders" || got[1].Storage != 1 || got[1].Partition != 2 || got[1].Offset != 4 || got[1].Attempt != 3 || got[1].Err != wrong || got[1].Outcome != dispatch.TriedAgain {
		t.Errorf("got %+v; expected each failure of a context that has not ended", got)
	}
}
