package topic_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// alterHook runs before each change of a storage topic's retention.
type alterHook struct {
	driver.Log
	before func(driver.TopicConfig) error
}

func (l *alterHook) AlterTopic(ctx context.Context, c driver.TopicConfig) error {
	if f := l.before; f != nil {
		if err := f(c); err != nil {
			return err
		}
	}
	return l.Log.AlterTopic(ctx, c)
}

func altered(t *testing.T) (*alterHook, *topic.Catalog) {
	t.Helper()
	log, reg := &alterHook{Log: memlog.NewStore(nil).Driver()}, memregistry.New()
	t.Cleanup(func() { _ = reg.Close() })
	c := topic.NewCatalog(commitlog.New(log), reg, "")
	must(t, c.Create(t.Context(), "t", topic.Config{Partitions: 1}))
	_, err := c.AddStorage(t.Context(), "t", 2)
	must(t, err)
	return log, c
}

// wantRetention checks the definition and every storage topic.
func wantRetention(t *testing.T, log driver.Log, c *topic.Catalog, want topic.Retention) {
	t.Helper()
	doc, err := c.Get(t.Context(), "t")
	if err != nil || doc.Retention() != want || doc.Altering {
		t.Errorf("the definition says %+v (not everywhere: %v), %v; want %+v", doc.Retention(), doc.Altering, err, want)
	}
	list, err := log.Topics(t.Context())
	must(t, err)
	for _, s := range list {
		if got := (topic.Retention{Bytes: s.RetentionBytes, AgeMS: s.RetentionAgeMillis, Force: s.RetentionForce}); got != want {
			t.Errorf("storage topic %s has %+v; want %+v", s.Name, got, want)
		}
	}
}

// Somebody who was stopped in the middle and goes on after another change leaves that one in force.
func TestTheLaterOfTwoRetentionsIsInForceEverywhere(t *testing.T) {
	t.Parallel()
	log, c := altered(t)
	later := topic.Retention{Bytes: 2000}
	changes := 0
	log.before = func(driver.TopicConfig) error {
		if changes++; changes == 1 {
			_, err := c.Alter(t.Context(), "t", "", nil, later)
			return err
		}
		return nil
	}
	_, err := c.Alter(t.Context(), "t", "", nil, topic.Retention{Bytes: 1000})
	must(t, err)
	wantRetention(t, log, c, later)
}

// Whoever comes by finishes a change that was cut off: a consumer, a creator, or another change.
func TestAChangeOfTheRetentionThatWasCutOffIsFinished(t *testing.T) {
	t.Parallel()
	want := topic.Retention{AgeMS: 1000, Force: true}
	for name, finish := range map[string]func(*topic.Catalog) error{
		"resume": func(c *topic.Catalog) error { return c.Resume(t.Context(), "t", "") },
		"create": func(c *topic.Catalog) error { return c.Create(t.Context(), "t", topic.Config{Partitions: 1}) },
		"alter": func(c *topic.Catalog) error {
			_, err := c.Alter(t.Context(), "t", "", nil, want)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			log, c := altered(t)
			changes, cut := 0, fmt.Errorf("cut off: %w", fault.Unavailable)
			log.before = func(driver.TopicConfig) error {
				if changes++; changes == 2 {
					return cut
				}
				return nil
			}
			if _, err := c.Alter(t.Context(), "t", "", nil, want); !errors.Is(err, cut) {
				t.Fatalf("the change gives %v; want it cut off", err)
			}
			must(t, finish(c))
			wantRetention(t, log, c, want)
		})
	}
}

// An addition that is half done when the retention changes gets the new one.
func TestAStorageTopicThatIsBeingAddedGetsTheNewRetention(t *testing.T) {
	t.Parallel()
	log, c := altered(t)
	want := topic.Retention{Bytes: 3000}
	_, err := c.Alter(t.Context(), "t", "", nil, want)
	must(t, err)
	_, err = c.AddStorage(t.Context(), "t", 4)
	must(t, err)
	wantRetention(t, log, c, want)
}

// A log that takes no more than so many bytes, for good. Somebody may have to finish that, or comes
// between; the log may refuse whatever else it is asked, too.
func TestARetentionThatTheLogRefusesLeadsBackToTheOneBefore(t *testing.T) {
	t.Parallel()
	old, large, later := topic.Retention{Bytes: 1000}, topic.Retention{Bytes: 9000}, topic.Retention{AgeMS: 7}
	refusal := fmt.Errorf("at most 5000 bytes: %w", fault.Invalid)
	cut := fmt.Errorf("cut off: %w", fault.Unavailable)
	for name, test := range map[string]struct {
		log    func(c *topic.Catalog) func(n int, config driver.TopicConfig) error // its n-th change
		err    error
		finish bool // by a consumer
		want   topic.Retention
	}{
		"the first storage topic": {err: refusal, want: old, log: func(*topic.Catalog) func(int, driver.TopicConfig) error {
			return func(_ int, config driver.TopicConfig) error {
				if config.RetentionBytes > 5000 {
					return refusal
				}
				return nil
			}
		}},
		"the second storage topic": {err: refusal, want: old, log: func(*topic.Catalog) func(int, driver.TopicConfig) error {
			return func(n int, _ driver.TopicConfig) error {
				if n == 2 {
					return refusal
				}
				return nil
			}
		}},
		"everything": {err: refusal, want: old, log: func(*topic.Catalog) func(int, driver.TopicConfig) error {
			return func(int, driver.TopicConfig) error { return refusal }
		}},
		"an error that nobody knows": {err: errStrange, want: old, log: func(*topic.Catalog) func(int, driver.TopicConfig) error {
			return func(n int, _ driver.TopicConfig) error {
				if n == 1 {
					return errStrange
				}
				return nil
			}
		}},
		"cut off on the way back": {err: cut, finish: true, want: old, log: func(*topic.Catalog) func(int, driver.TopicConfig) error {
			return func(n int, _ driver.TopicConfig) error {
				switch n {
				case 2:
					return refusal
				case 4:
					return cut
				}
				return nil
			}
		}},
		"refused to who finishes it": {err: cut, finish: true, want: old, log: func(*topic.Catalog) func(int, driver.TopicConfig) error {
			return func(n int, _ driver.TopicConfig) error {
				switch n {
				case 2:
					return cut
				case 4:
					return refusal
				}
				return nil
			}
		}},
		"another change comes between": {err: refusal, want: later, log: func(c *topic.Catalog) func(int, driver.TopicConfig) error {
			return func(n int, _ driver.TopicConfig) error {
				if n != 1 {
					return nil
				}
				if _, err := c.Alter(t.Context(), "t", "", nil, later); err != nil {
					t.Error(err)
				}
				return refusal
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, c := altered(t)
			_, err := c.Alter(t.Context(), "t", "", nil, old)
			must(t, err)
			changes, answer := 0, test.log(c)
			log.before = func(config driver.TopicConfig) error {
				changes++
				return answer(changes, config)
			}
			if _, err := c.Alter(t.Context(), "t", "", nil, large); !errors.Is(err, test.err) {
				t.Errorf("the change gives %v; want %v", err, test.err)
			}
			if test.finish {
				if err := c.Resume(t.Context(), "t", ""); err != nil {
					t.Errorf("finished with %v", err)
				}
			}
			wantRetention(t, log, c, test.want)
		})
	}
}

var errStrange = errors.New("strange")
