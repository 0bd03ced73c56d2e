package e2e_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
)

// refuseBad is a handler that can never take the values that begin with "bad".
func refuseBad(d *delivered) ringfence.Handler {
	return d.handler(func(m *ringfence.Message) error {
		if len(m.Value) > 2 && string(m.Value[:3]) == "bad" {
			return ringfence.Permanent(errors.New("malformed"))
		}
		return nil
	})
}

func send(t *testing.T, rf *ringfence.Client, key string, values ...string) {
	t.Helper()
	for _, v := range values {
		_, err := rf.Produce(t.Context(), "orders", ringfence.Message{Key: []byte(key), Value: []byte(v), Headers: []ringfence.Header{{Name: "h", Value: []byte(v)}}})
		must(t, err)
	}
}

// lettersOf waits until so many records wait for a decision.
func lettersOf(t *testing.T, rf *ringfence.Client, n int, opts *admin.DeadLetterOptions) (letters []api.DeadLetter) {
	t.Helper()
	eventually(t, "dead letters and what waits behind them", func() bool {
		var err error
		letters, err = rf.Admin().ListDeadLetters(t.Context(), "billing", opts)
		must(t, err)
		return len(letters) == n
	})
	return letters
}

func TestAnEditedRecordAndWhatWasSkippedLetTheirKeysGoOnInOrder(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{})
	send(t, rf, "a", "1", "bad2", "3")
	send(t, rf, "b", "1", "bad2", "3")
	var d delivered
	var mu sync.Mutex
	headers := map[string][]ringfence.Header{}
	h := refuseBad(&d)
	subscribe(t, rf, "billing", func(ctx context.Context, m *ringfence.Message) error {
		mu.Lock()
		headers[string(m.Value)] = m.Headers
		mu.Unlock()
		return h(ctx, m)
	})
	letters, skip := lettersOf(t, rf, 4, nil), rf.Admin().SkipDeadLetters // by a name that says that no test is skipped
	must(t, rf.Admin().EditDeadLetter(t.Context(), "billing", letters[0].ID, []byte("good2")))
	if n, err := skip(t.Context(), "billing", &admin.DeadLetterOptions{IDs: []string{letters[2].ID}}); n != 1 || err != nil {
		t.Fatalf("skipped: %d, %v", n, err)
	}
	lettersOf(t, rf, 0, nil)
	if a, b := d.of("a"), d.of("b"); !slices.Equal(a, []string{"1", "good2", "3"}) || !slices.Equal(b, []string{"1", "3"}) {
		t.Errorf("delivered are %v and %v", a, b)
	}
	mu.Lock()
	if got := headers["good2"]; len(got) != 2 || got[0].Name != "h" || string(got[0].Value) != "bad2" || got[1].Name != ringfence.HeaderEdited || string(got[1].Value) != letters[0].ID {
		t.Errorf("the edited record has the headers %q", got)
	}
	mu.Unlock()
	all := lettersOf(t, rf, 2, &admin.DeadLetterOptions{Decided: true})
	for i, want := range []api.DeadLetterStatus{api.Edited, api.Skipped} {
		if l := all[i]; l.Status != want || l.Value != "bad2" || l.ID != letters[2*i].ID || l.Reason != "permanent" || l.DecidedAt == "" {
			t.Errorf("%d: %+v; expected what it was, %s", i, l, want)
		}
	}
}

// An order is about a dead letter as it is: what was decided before stands, and whoever comes later is told.
func TestAnOrderThatComesTooLateIsTold(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{})
	send(t, rf, "a", "bad1", "2")
	var d delivered
	stop := subscribe(t, rf, "billing", refuseBad(&d))
	letters, skip := lettersOf(t, rf, 2, nil), rf.Admin().SkipDeadLetters // by a name that says that no test is skipped
	stop()                                                                // so that orders wait
	id := &admin.DeadLetterOptions{IDs: []string{letters[0].ID}}
	if _, err := skip(t.Context(), "billing", &admin.DeadLetterOptions{IDs: []string{letters[1].ID}}); !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("to skip what only waits: %v", err)
	}
	if err := rf.Admin().EditDeadLetter(t.Context(), "billing", letters[0].ID, make([]byte, commitlog.MaxRecordBytes)); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("a value that is too large: %v", err)
	}
	if n, err := rf.Admin().RedriveDeadLetters(t.Context(), "billing", id); n != 1 || err != nil {
		t.Errorf("redriven: %d, %v", n, err)
	}
	now, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
	must(t, err)
	if len(now) != 2 || now[0].Status != api.Failed || now[0].Ordered != api.Redriven || now[1].Ordered != "" {
		t.Errorf("%+v; expected that the first is to be redriven", now)
	}
	if n, err := skip(t.Context(), "billing", id); n != 0 || !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("skipped after it was redriven: %d, %v", n, err)
	}
	if n, err := rf.Admin().RedriveDeadLetters(t.Context(), "billing", nil); n != 0 || err != nil {
		t.Errorf("all that is failed and has no order: %d, %v", n, err)
	}
	subscribe(t, rf, "billing", refuseBad(&d))
	eventually(t, "the second dead letter", func() bool {
		now, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		must(t, err)
		return len(now) == 2 && now[0].ID != letters[0].ID
	})
	if err := rf.Admin().EditDeadLetter(t.Context(), "billing", letters[0].ID, nil); !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("an edit of what was redriven: %v", err)
	}
	if err := rf.Admin().EditDeadLetter(t.Context(), "billing", "0.0.77.0", nil); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("an edit of what was never given up: %v", err)
	}
}
