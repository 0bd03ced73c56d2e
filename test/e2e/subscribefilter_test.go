package e2e_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

func TestOnlyWhatTheFilterIsTrueOfIsDelivered(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{Filter: `value.n % 2 == 0 and headers.skip != "yes"`, Retry: admin.Retry{Initial: 1, Attempts: 1}, Hold: -1})
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	if err != nil {
		t.Fatalf("%+v, %v; expected a format that older versions refuse", info, err)
	}
	for _, value := range []string{`{"n":1}`, `{"n":2}`, `{"n":"x"}`, `{"n":3}`, `{"n":4}`, `{"n":6}`, `{"n":7}`, `{"n":8}`} {
		m := ringfence.Message{Key: []byte("k"), Value: []byte(value)}
		if value == `{"n":6}` {
			m.Headers = []ringfence.Header{{Name: "skip", Value: []byte("yes")}}
		}
		_, err := rf.Produce(t.Context(), "orders", m)
		must(t, err)
	}
	var d delivered
	subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return nil }))
	eventually(t, "the dead letter and what waits behind it", func() bool { // what is filtered does not wait
		letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		return err == nil && len(letters) == 3
	})
	for filter, want := range map[string][]string{
		"":                   {`{"n":"x"}`, `{"n":4}`, `{"n":8}`},
		`status == "failed"`: {`{"n":"x"}`},
		`value.n > 4`:        {`{"n":8}`}, // it can't be computed for the first
		`answer contains "filter" && attempts==1`: {`{"n":"x"}`},
	} {
		letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", &admin.DeadLetterOptions{Filter: filter})
		var got []string
		for _, l := range letters {
			got = append(got, l.Value)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; expected %q", filter, got, err, want)
		}
	}
	if _, err := rf.Admin().ListDeadLetters(t.Context(), "billing", &admin.DeadLetterOptions{Filter: "nonsense("}); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("%v; expected ErrInvalid", err)
	}
	if n, err := rf.Admin().DiscardDeadLetters(t.Context(), "billing", &admin.DeadLetterOptions{Filter: `answer contains "filter"`}); n != 1 || err != nil {
		t.Errorf("%d, %v; expected one order", n, err)
	}
	eventually(t, "the rest", func() bool { return len(d.of("k")) == 3 })
	send(t, rf, "other", `{"n":10}`, `{"n":"y"}`, `{"n":"z"}`, `{"n":12}`)
	letters := lettersOf(t, rf, 3, nil) // the second that can't be judged waits behind the first
	if letters[0].Value != `{"n":"y"}` || letters[0].Status != api.Failed || letters[1].Status == api.Failed {
		t.Errorf("%+v; expected the first to hold back the others", letters)
	}
	if n, err := rf.Admin().RedriveDeadLetters(t.Context(), "billing", nil); n != 1 || err != nil { // somebody has decided: it is delivered
		t.Errorf("%d, %v; expected one order", n, err)
	}
	letters = lettersOf(t, rf, 2, nil)
	if letters[0].Value != `{"n":"z"}` || letters[0].Status != api.Failed {
		t.Errorf("%+v; expected that nobody can judge the next either", letters)
	}
	if got, want := d.of("other"), []string{`{"n":10}`, `{"n":"y"}`}; !slices.Equal(got, want) {
		t.Errorf("%q; expected %q", got, want)
	}
	if got, want := d.of("k"), []string{`{"n":2}`, `{"n":4}`, `{"n":8}`}; !slices.Equal(got, want) {
		t.Errorf("%q; expected %q", got, want)
	}
}

func TestAFilterThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 1)
	_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders", Filter: "value.n >"})
	if !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), "filter") {
		t.Errorf("%v; expected ErrInvalid that names the filter", err)
	}
	if _, err := rf.Admin().GetSubscription(t.Context(), "billing"); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("%v; expected that nothing was made", err)
	}
}
