package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
)

// sendAt sends a record that is not to be delivered before a time.
func sendAt(t *testing.T, rf *ringfence.Client, key, value, at string) {
	t.Helper()
	_, err := rf.Produce(t.Context(), "orders", ringfence.Message{
		Key: []byte(key), Value: []byte(value), Headers: []ringfence.Header{{Name: ringfence.HeaderNotBefore, Value: []byte(at)}},
	})
	must(t, err)
}

// A record waits for its time in a journal: its key with it, no other key, and no checkpoint. That it waited is no
// attempt.
func TestADelayedRecordIsDeliveredWhenItsTimeHasCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{Retry: admin.Retry{Attempts: 1}})
		due := time.Now().Add(time.Second).Truncate(time.Millisecond)
		sendAt(t, rf, "k", "late", fmt.Sprint(due.UnixMilli()))
		send(t, rf, "k", "behind")
		send(t, rf, "other", "1")
		sendAt(t, rf, "past", "1", due.Add(-time.Hour).UTC().Format(time.RFC3339))
		early := make(chan string, 8)
		handler := func(m *ringfence.Message) error {
			if string(m.Key) == "k" && (time.Now().Before(due) || m.Attempt != 1) {
				early <- fmt.Sprintf("%s at %s, attempt %d", m.Value, time.Now(), m.Attempt)
			}
			return nil
		}
		var first, second delivered
		stop := subscribe(t, rf, "billing", first.handler(handler))
		eventually(t, "what is not delayed", func() bool { return len(first.of("other"))+len(first.of("past")) == 2 })
		info, err := rf.Admin().GetSubscription(t.Context(), "billing")
		must(t, err)
		eventually(t, "the checkpoint to pass what is delayed", func() bool {
			g, err := rf.Admin().DescribeGroup(t.Context(), info.Group())
			return err == nil && g.Lag == 0
		})
		why, err := rf.Admin().ExplainKey(t.Context(), "billing", []byte("k"))
		if err != nil || why.State != api.KeyDelayed || len(why.Blocked) != 1 || why.Blocked[0].Due != api.TimeOf(due) || why.Blocked[0].Attempts != 0 || why.Blocked[0].Followers != 1 {
			t.Errorf("%+v, %v; expected the record to be due at %s", why, err, due)
		}
		stop()
		subscribe(t, rf, "billing", second.handler(handler))
		eventually(t, "the record, and what waited behind it", func() bool {
			return slices.Equal(append(first.of("k"), second.of("k")...), []string{"late", "behind"})
		})
		select {
		case what := <-early:
			t.Errorf("%s; expected %s, and the first attempt", what, due)
		default:
		}
	})
}

// When such a record was meant to come is not known: nothing is passed over in silence, and nothing comes early.
func TestADelayThatMakesNoSenseIsADeadLetterAtOnce(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 2)
	_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders", Retry: admin.Retry{Initial: time.Hour, Max: time.Hour}})
	must(t, err)
	log := s.log.Open() // a producer with the log's own client
	defer log.Close()
	topics, err := log.Topics(t.Context())
	must(t, err)
	st, err := log.Topic(t.Context(), topics[slices.IndexFunc(topics, func(c commitlog.TopicConfig) bool { return strings.HasPrefix(c.Name, "orders") })].Name)
	must(t, err)
	for _, at := range []string{"tomorrow", "", "99999999999999999999", time.Now().AddDate(2, 0, 0).UTC().Format(time.RFC3339), "\x1b[2J"} {
		m := ringfence.Message{Key: []byte("k" + at), Value: []byte("x"), Headers: []ringfence.Header{{Name: ringfence.HeaderNotBefore, Value: []byte(at)}}}
		if _, err := rf.Produce(t.Context(), "orders", m); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("produced with %s %q: %v; expected ErrInvalid", ringfence.HeaderNotBefore, at, err)
		}
		_, err := st.Append(t.Context(), 0, []commitlog.Record{{Key: m.Key, Value: m.Value, Headers: []commitlog.Header{{Name: m.Headers[0].Name, Value: m.Headers[0].Value}}}}, nil)
		must(t, err)
	}
	var d delivered
	subscribe(t, rf, "billing", d.handler(fine))
	for _, l := range lettersOf(t, rf, 5, nil) {
		if l.Status != api.Failed || !strings.Contains(l.Answer, "expected a time") {
			t.Errorf("%+v; expected a dead letter that says what was expected", l)
		}
		if got := d.of(l.KeyText()); len(got) != 0 {
			t.Errorf("%q was delivered", l.KeyText())
		}
	}
}
