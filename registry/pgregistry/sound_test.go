package pgregistry

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// A server that is none, or somebody in between, may answer with numbers that are about nothing. What was
// asked for may be done then, or not: nobody knows, and nothing ends for it.
func TestAnAnswerAboutSomethingElseLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	quiet := func(key string) driver.Txn {
		return driver.Txn{Quiet: true, Checks: []driver.Check{{Key: "fence", Version: "v"}}, Puts: []driver.Put{{Key: key}}}
	}
	plain := []driver.Txn{quiet("a"), quiet("b")}
	others := []driver.Txn{{Checks: []driver.Check{{Key: "a"}}, Deletes: []string{"a"}}, {Puts: []driver.Put{{Key: "b"}}}}
	url := testserver.URL(t, "postgres")
	for _, c := range []struct {
		answer string
		txns   []driver.Txn
		commit bool // the answer is that of commit_1
	}{
		{answer: "{3}", txns: plain, commit: true},
		{answer: "{0}", txns: plain, commit: true},
		{answer: "{-2147483648}", txns: plain, commit: true},
		{answer: "{1,1}", txns: plain, commit: true},
		{answer: "{1,2,1}", txns: plain, commit: true},
		{answer: "{}", txns: others},
		{answer: "{0}", txns: others},
		{answer: "{0,0,0}", txns: others},
		{answer: "{2,0}", txns: others},
		{answer: "{2147483647,0}", txns: others},
		{answer: "{0,1}", txns: others},
		{answer: "{-1,0}", txns: others},
	} {
		t.Run(c.answer, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, url).open(t, driver.Options{})
			says := "SELECT '" + c.answer + "'::int[]"
			if s.q.apply = says; c.commit {
				s.q.commit = says
			}
			results, err := s.Apply(t.Context(), c.txns)
			if err != nil || len(results) != len(c.txns) {
				t.Fatal(results, err)
			}
			for i, r := range results {
				if !errors.Is(r.Err, driver.ErrUnknown) || !errors.Is(r.Err, errAnswer) {
					t.Errorf("transaction %d of %d: %v %v; expected %v", i, len(c.txns), r.Versions, r.Err, driver.ErrUnknown)
				}
			}
		})
	}
}

func TestARowWithoutAKeySaysThatNothingIsLocked(t *testing.T) {
	t.Parallel()
	s := newStore(t, testserver.URL(t, "postgres")).open(t, driver.Options{})
	s.q.locked = "SELECT"
	if held := s.locked(t.Context(), []driver.Txn{{Deletes: []string{"a"}}}); len(held) != 0 {
		t.Errorf("%v is locked; expected nothing, as nobody says so", held)
	}
}
