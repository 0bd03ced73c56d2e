package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/history"
)

// bugs are deliveries that break a promise, each with one record of every key.
var bugs = map[string]func(ringfence.Handler) ringfence.Handler{
	// A record is given up in silence.
	"loses": func(h ringfence.Handler) ringfence.Handler {
		return func(ctx context.Context, m *ringfence.Message) error {
			if sequenceOf(m.Value) == brokenRecord {
				return nil
			}
			return h(ctx, m)
		}
	},
	// A record is delivered behind the one that follows it.
	"reorders": func(h ringfence.Handler) ringfence.Handler {
		var held sync.Map
		return func(ctx context.Context, m *ringfence.Message) error {
			if sequenceOf(m.Value) == brokenRecord {
				held.Store(string(m.Key), *m)
				return nil
			}
			err := h(ctx, m)
			if late, ok := held.Load(string(m.Key)); ok && err == nil {
				m, _ := late.(ringfence.Message)
				m.Attempt = 1
				for h(ctx, &m) != nil {
					m.Attempt++
				}
				held.Delete(string(m.Key))
			}
			return err
		}
	},
	// A record that would have been done is given up.
	"gives up": func(h ringfence.Handler) ringfence.Handler {
		return func(ctx context.Context, m *ringfence.Message) error {
			if strings.HasSuffix(string(m.Key), "/3") && sequenceOf(m.Value) == brokenRecord && !thisProcess().mended() {
				return ringfence.Permanent(errors.New("no more"))
			}
			return h(ctx, m)
		}
	},
}

const brokenRecord = 8

// thisProcess is what this process was told.
func thisProcess() *Spec {
	s := new(Spec)
	if err := json.Unmarshal([]byte(os.Getenv(specVariable)), s); err != nil {
		panic(err) // it has begun with that
	}
	return s
}

// subscribed is a run of a few seconds with a subscription, with a bug or without.
func subscribed(t *testing.T, bug string) Config {
	t.Helper()
	c := small(t, "", "")
	c.Subscriptions, c.Faults = true, SubscriptionFaults()
	command := c.Command
	c.Command = func(s Spec) (string, []string, []string) {
		binary, args, env := command(s)
		return binary, args, append(env, bugVariable+"="+bug)
	}
	return c
}

func TestRunOfASubscriptionKeepsItsPromises(t *testing.T) {
	t.Parallel()
	c := subscribed(t, "")
	r, err := Run(t.Context(), c)
	if err != nil || r.Verdict != AllKept || len(r.Notes) > 0 {
		t.Fatalf("%v: %+v\n%+v", err, r.Figures, r)
	}
	f := r.Figures
	if f.Acked == 0 || f.Handled < f.Acked || f.DeadLetters != 2 || f.Redriven != 2 || f.Turns == 0 || f.PauseMillis == 0 || f.Grown == 0 {
		t.Errorf("%+v; expected that all was taken, one dead letter of each producer, turns, and a topic that grew", f)
	}
	for _, kind := range r.Faults {
		if kind.Done == 0 {
			t.Errorf("no %s happened: %+v", kind.Kind, r.Schedule)
		}
	}
	rf, err := ringfence.Open(t.Context(), c.Client)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rf.Close() }()
	topics, err1 := rf.Admin().ListTopics(t.Context())
	subs, err2 := rf.Admin().ListSubscriptions(t.Context())
	if err := errors.Join(err1, err2); err != nil || len(topics) > 0 || len(subs) > 0 {
		t.Errorf("left behind: %v, %v, %v", topics, subs, err)
	}
}

func TestJudgeFindsABrokenDelivery(t *testing.T) {
	t.Parallel()
	for bug, promises := range map[string][]history.Promise{
		"loses":    {history.NotLost, history.NotSkipped, history.KeyOrder},
		"reorders": {history.KeyOrder},
		"gives up": {history.OneDeadLetter},
	} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			c := subscribed(t, bug)
			c.For, c.Faults, c.Keys = 4*time.Second, []string{Kill}, 30
			r, err := Run(t.Context(), c)
			if !errors.Is(err, ErrBroken) || r.Verdict != Broken || !r.Kept {
				t.Fatalf("%v: %+v\n%+v", err, r.Figures, r)
			}
			for _, p := range r.Promises {
				if bug == "reorders" && (p.Promise == history.NotLost || p.Promise == history.NotSkipped) {
					continue // what it holds back goes with a process that is killed
				}
				if slices.Contains(promises, p.Promise) != (p.Broken > 0) {
					t.Errorf("%s: broken %d times: %+v", p.Promise, p.Broken, p.Examples)
				}
			}
		})
	}
}

func TestScheduleHasTheFaultsOfItsKindOfRun(t *testing.T) {
	t.Parallel()
	c := Config{For: time.Minute, Rate: 1000, Faults: SubscriptionFaults(), Partitions: 8, Consumers: 3, Producers: 2, TTL: 2 * time.Second, Subscriptions: true}
	turns := 0
	for _, f := range c.schedule() {
		if f.Kind == Reshard {
			if turns++; f.Shards < 1 || f.Shards > 8 {
				t.Errorf("%+v; expected 1 to 8 shards", f)
			}
		}
	}
	if turns < 3 || turns > maxTurns {
		t.Errorf("%d turns in a minute", turns)
	}
	c.Faults = []string{Retire}
	if err := c.Validate(); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "with --subscriptions; expected some of kill, stop, term, grow, reshard") {
		t.Error(err)
	}
	c.Subscriptions, c.Faults = false, []string{Reshard}
	if err := c.Validate(); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "expected some of kill, stop, term, grow, retire") {
		t.Error(err)
	}
	c.Subscriptions, c.For = true, 24*time.Hour
	if err := c.Validate(); !strings.Contains(err.Error(), "at most 10000000 records") {
		t.Error(err)
	}
}

func TestAgainRetriesWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []error // the last one for ever
		want    error
		tries   int
	}{
		"it is away twice":   {[]error{ringfence.ErrUnavailable, ringfence.ErrUnknown, nil}, nil, 3},
		"it was done":        {[]error{ringfence.ErrUnknown, ringfence.ErrNotFound}, nil, 2},
		"it is refused":      {[]error{ringfence.ErrConflict}, ringfence.ErrConflict, 1},
		"it stays away":      {[]error{ringfence.ErrUnavailable}, ringfence.ErrUnavailable, 0},
		"it answers at once": {[]error{nil}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				tries := 0
				err := again(ctx, time.Millisecond, func(context.Context) error {
					tries++
					if answer := c.answers[min(tries, len(c.answers))-1]; answer != nil {
						return fmt.Errorf("the store: %w", answer)
					}
					return nil
				})
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || c.tries != 0 && tries != c.tries {
					t.Errorf("%v after %d tries", err, tries)
				}
			})
		})
	}
}

func TestClearNamesWhatIsLeftBehind(t *testing.T) {
	t.Parallel()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		t.Fatal(err)
	}
	_ = rf.Close() // so that nothing can be removed any more
	r := &crew{rf: rf, topic: "verify-a", group: "verify-b", subscription: true}
	err = r.clear()
	for _, what := range []string{`subscription verify-b is left behind; "ringfence subscription delete verify-b --force"`, `topic verify-a and group verify-b are left behind; "ringfence topic delete verify-a --force"`} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v\ndoes not say %q", err, what)
		}
	}
}
