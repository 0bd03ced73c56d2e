package verify

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// A run waits as long as there is progress, and no longer: it has to end, and not in the middle.
func TestUntilWaitsWhileThereIsProgress(t *testing.T) {
	t.Parallel()
	const patience = 3 * look
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r := &crew{tally: newTally(t.TempDir()), look: look}
	left := int64(10)
	if err := r.until(ctx, "it is done", patience, func(context.Context) (bool, int64, error) {
		left--
		return left == 0, left, nil
	}); err != nil {
		t.Errorf("one less at each look: %v", err)
	}
	for _, away := range []error{nil, fault.Unavailable} {
		began := time.Now()
		err := r.until(ctx, "it is done", patience, func(context.Context) (bool, int64, error) { return false, 5, away })
		stood := new(stoodStillError)
		if !errors.As(err, &stood) || !errors.Is(stood.last, away) || time.Since(began) < patience {
			t.Errorf("nothing moves, and the store says %v: %v after %s", away, err, time.Since(began))
		}
	}
}

// What a group leaves though its stores answer is lost, and judged as that. While a store is away nobody knows what
// is left: then nothing that is missing is lost, and the run has no verdict.
func TestDrainedJudgesOnlyAKnownRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err      error
		complete bool
		notes    int
		fails    bool
	}{
		{nil, true, 0, false},
		{&stoodStillError{what: "it is done"}, true, 1, false}, // what is left counts as lost
		{&stoodStillError{what: "it is done", last: fault.Unavailable}, false, 0, true},
		{context.Canceled, false, 0, true},
	} {
		r := &run{crew: new(crew)}
		if err := r.drained(c.err); (err != nil) != c.fails || len(r.notes) != c.notes {
			t.Errorf("%v: %v, notes %q", c.err, err, r.notes)
		}
		if r.result.Complete != c.complete {
			t.Errorf("%v: complete is %t", c.err, r.result.Complete)
		}
	}
}
