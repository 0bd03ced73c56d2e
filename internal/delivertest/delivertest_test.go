package delivertest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDeliverProcess is no test but the body of the processes of those below.
func TestDeliverProcess(t *testing.T) { Process(t, nil) }

func TestDaemonsKilledOnADirectoryLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	Run(t, Stores{Config: ringfence.Config{Dir: t.TempDir()}})
}

// An endpoint that answers for a record and loses it breaks what the judge looks for.
func TestStoryOfDeliveriesFindsALostRecord(t *testing.T) {
	t.Parallel()
	r, err := tell(t, Stores{Config: ringfence.Config{Dir: t.TempDir()}}, true)
	if !errors.Is(err, verify.ErrBroken) || r.Lost != 1 || !slices.ContainsFunc(r.Broken, func(s string) bool { return strings.Contains(s, "record 7 of key \"customer/3\"") }) {
		t.Fatalf("%v: %+v; expected a broken promise", err, r)
	}
	if r.Produced == 0 || r.Delivered != r.Produced-1 || r.DeadLetters != 1 || r.Redriven != 1 || r.Waiting == 0 {
		t.Errorf("%+v", r)
	}
}
