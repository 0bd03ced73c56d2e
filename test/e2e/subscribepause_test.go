package e2e_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// heard notes what a client logs.
type heard struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (h *heard) Enabled(context.Context, slog.Level) bool { return true }

func (h *heard) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, r.Message)
	return nil
}

func (h *heard) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *heard) WithGroup(string) slog.Handler      { return h }

func (h *heard) says(line string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.lines, line)
}

// withControl makes a topic with a subscription to pause, and another that is not paused: when that has
// delivered a record, the paused one would have too.
func withControl(t *testing.T) (*ringfence.Client, *heard, *delivered) {
	t.Helper()
	h := &heard{}
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: t.TempDir(), Logger: slog.New(h)})
	must(t, err)
	t.Cleanup(func() { _ = rf.Close() })
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 2}))
	for _, name := range []string{"billing", "control"} {
		_, err := rf.Admin().CreateSubscription(t.Context(), name, admin.SubscriptionConfig{
			Topic: "orders", Retry: admin.Retry{Initial: 5 * time.Millisecond, Max: 5 * time.Millisecond, Attempts: 100}, Hold: -1,
		})
		must(t, err)
	}
	control := &delivered{}
	subscribe(t, rf, "control", control.handler(func(*ringfence.Message) error { return nil }))
	return rf, h, control
}

func (d *delivered) all(n, keys int) bool {
	for k := range keys {
		if len(d.of("k"+string(rune('0'+k)))) < n/keys {
			return false
		}
	}
	return true
}

func (d *delivered) attempts() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range d.tries {
		n += k
	}
	return n
}

func TestAPausedSubscriptionDeliversNothingAndThenGoesOnInOrder(t *testing.T) {
	t.Parallel()
	rf, log, control := withControl(t)
	var d delivered
	held, release := make(chan struct{}), make(chan struct{})
	h := d.handler(func(m *ringfence.Message) error {
		if string(m.Value) == "2" {
			return errors.New("not yet") // it is parked, and due again and again
		}
		return nil
	})
	subscribe(t, rf, "billing", func(ctx context.Context, m *ringfence.Message) error {
		if string(m.Value) == "1" {
			close(held)
			<-release
		}
		return h(ctx, m)
	})
	produce(t, rf, "orders", 0, 6, 3)
	<-held
	eventually(t, "attempts at what is parked", func() bool { return d.attempts() > 5 })

	info, err := rf.Admin().PauseSubscription(t.Context(), "billing", &admin.PauseSubscriptionOptions{Reason: "lunch"})
	if must(t, err); info.Paused == nil || info.Paused.Reason != "lunch" || info.Paused.Since == "" {
		t.Errorf("paused: %+v", info.Paused)
	}
	eventually(t, "the member hears of it", func() bool { return log.says("the subscription is paused") })
	close(release) // what is under way ends, and counts
	eventually(t, "the end of what was under way", func() bool { return len(d.of("k1")) > 0 })
	d.cure() // of 2 an attempt may be under way, but what is parked behind it has to wait
	produce(t, rf, "orders", 6, 24, 3)
	eventually(t, "the control", func() bool { return control.all(30, 3) })
	d.mu.Lock()
	for value := range d.tries {
		if !slices.Contains([]string{"0", "1", "2", "3"}, value) {
			t.Errorf("%s was delivered while it was paused", value)
		}
	}
	d.mu.Unlock()

	if info, err = rf.Admin().ResumeSubscription(t.Context(), "billing"); err != nil || info.Paused != nil {
		t.Errorf("resumed: %+v, %v", info, err)
	}
	eventually(t, "all records", func() bool { return d.all(30, 3) })
	for k := range 3 {
		if got, want := strings.Join(d.of("k"+string(rune('0'+k))), " "), strings.Join(every(30, 3, k), " "); got != want {
			t.Errorf("of k%d came %s", k, got)
		}
	}
}

func TestAMemberThatStartsWhileItIsPausedDeliversNothing(t *testing.T) {
	t.Parallel()
	rf, _, control := withControl(t)
	info, err := rf.Admin().PauseSubscription(t.Context(), "billing", nil)
	must(t, err)
	again, err := rf.Admin().PauseSubscription(t.Context(), "billing", &admin.PauseSubscriptionOptions{Reason: "late"})
	if must(t, err); *again.Paused != *info.Paused {
		t.Errorf("a second pause: %+v, not %+v", again.Paused, info.Paused)
	}
	produce(t, rf, "orders", 0, 30, 3)
	var d delivered
	stop := subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return nil }))
	eventually(t, "an owner of each shard", func() bool {
		g, err := rf.Admin().DescribeGroup(t.Context(), info.Group())
		if errors.Is(err, ringfence.ErrNotFound) {
			return false
		}
		must(t, err)
		return !slices.ContainsFunc(g.Units, func(u api.Unit) bool { return u.Owner == "" })
	})
	eventually(t, "the control", func() bool { return control.all(30, 3) })
	time.Sleep(time.Second)       // owners read their journals before they deliver
	if stop(); d.attempts() > 0 { // a member ends as ever
		t.Fatalf("%d attempts while it was paused", d.attempts())
	}
	subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return nil }))
	_, err = rf.Admin().ResumeSubscription(t.Context(), "billing")
	must(t, err)
	eventually(t, "all records", func() bool { return d.all(30, 3) })
}

func TestAReasonIsBound(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{})
	for _, reason := range []string{strings.Repeat("x", 1025), "\xff"} {
		if _, err := rf.Admin().PauseSubscription(t.Context(), "billing", &admin.PauseSubscriptionOptions{Reason: reason}); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("a reason of %d bytes: %v", len(reason), err)
		}
	}
	for _, f := range []func() error{
		func() error { _, err := rf.Admin().PauseSubscription(t.Context(), "nobody", nil); return err },
		func() error { _, err := rf.Admin().ResumeSubscription(t.Context(), "nobody"); return err },
	} {
		if err := f(); !errors.Is(err, ringfence.ErrNotFound) {
			t.Errorf("of none: %v", err)
		}
	}
}
