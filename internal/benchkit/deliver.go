package benchkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/measure"
)

// deliver measures subscriptions: with a handler that does nothing against Consume, with records that
// fail against the same without them, with an endpoint against a bare client, and what is parked.
type deliver struct {
	Records     int
	Keys        int
	Partitions  int
	Concurrency int
	Failing     int
	Work        int // µs
	Posts       int
	Parked      int
	ParkedKeys  int

	runs int // subscriptions and groups that were made so far
}

// errPoison is what the handlers of the measurement fail with.
var errPoison = errors.New("this record always fails")

func (c *deliver) settings(s *settings) {
	s.rounds("rounds of each measurement, taken in turn")
	s.number(&c.Records, "records", 1_000_000, 1, "records for the handler that does nothing")
	s.number(&c.Keys, "keys", 1000, 1, "different keys of them")
	s.number(&c.Partitions, "partitions", 8, 1, "partitions of their topic")
	s.number(&c.Concurrency, "concurrency", 16, 1, "handlers or requests at the same time in one partition")
	s.number(&c.Failing, "failing", 10_000, -1, "records, a fifth of them poison at the head; and keys, of which one or a tenth fail (-1: leave them out)")
	s.number(&c.Work, "work", 1000, -1, "`microseconds` that the handler of the good ones of them takes (-1: none)")
	s.number(&c.Posts, "posts", 10_000, -1, "records to post to an endpoint of this process (-1: leave it out)")
	s.number(&c.Parked, "parked", 100_000, -1, "parked records that a new owner learns of (-1: leave it out)")
	s.number(&c.ParkedKeys, "parked-keys", 10_000, 1, "different keys of them")
	s.also(func() {
		s.that(c.Failing < 0 || c.Failing >= 10, "--failing is %d; expected 10 or more", c.Failing)
	})
}

func (c *deliver) measure(ctx context.Context, r *run) error {
	rf, err := r.open(ctx, "/data", ringfence.OS)
	if err != nil {
		return err
	}
	if err := c.enterHandler(ctx, r, rf); err != nil {
		return err
	}
	if c.Failing > 0 {
		if err := c.enterFailing(ctx, r, rf); err != nil {
			return err
		}
	}
	if c.Posts > 0 {
		if err := c.enterPosts(ctx, r, rf); err != nil {
			return err
		}
	}
	var left *leftovers
	if c.Parked > 0 {
		if left, err = c.enterParked(ctx, r, rf); err != nil {
			return err
		}
	}
	if err := r.play(); err != nil {
		return err
	}
	if left != nil {
		left.show(r)
	}
	return r.done("%s of %s in %s, order per key, durability os, %s", measure.Many(c.Records, "record"),
		measure.Many(c.Keys, "key"), measure.Many(c.Partitions, "partition"), measure.Many(r.Rounds, "round"))
}

// enterHandler enters a subscription whose handler does nothing, and Consume.
func (c *deliver) enterHandler(ctx context.Context, r *run, rf *ringfence.Client) error {
	r.Bench.Logf("writing %s to %s", measure.Many(c.Records, "record"), measure.Many(c.Partitions, "partition"))
	records := c.Records / c.Partitions * c.Partitions
	if err := fillKeys(ctx, rf, "some", c.Partitions, records, func(i int) string { return fmt.Sprintf("key-%d", i%c.Keys) }); err != nil {
		return err
	}
	consumed := r.Add(measure.Entry{Name: "Consume, empty handler", Unit: "records/s", Turn: func(*measure.Histogram) (float64, error) {
		c.runs++
		return consumeAll(ctx, rf, "some", fmt.Sprintf("group-%d", c.runs), records, c.Concurrency)
	}})
	r.Add(measure.Entry{Name: "subscription, empty handler", Unit: "records/s", To: consumed, Kind: "deliver", Turn: func(*measure.Histogram) (float64, error) {
		return c.subscribe(ctx, rf, "some", records, nothing)
	}})
	return nil
}

// enterFailing enters subscriptions some of whose records fail for ever, and the same without those.
func (c *deliver) enterFailing(ctx context.Context, r *run, rf *ringfence.Client) error {
	handler := func(_ context.Context, m *ringfence.Message) error {
		if len(m.Key) > 0 && m.Key[0] == '!' {
			return errPoison
		}
		if c.Work > 0 {
			time.Sleep(time.Duration(c.Work) * time.Microsecond)
		}
		return nil
	}
	var base *measure.Entry
	n := 0
	add := func(kind, name string, records int, key func(i int) (name int, fails bool)) error {
		n++
		topic, good := fmt.Sprintf("failing-%d", n), 0
		err := fillKeys(ctx, rf, topic, 1, records, func(i int) string {
			name, fails := key(i)
			if fails {
				return fmt.Sprintf("!%d", name)
			}
			good++
			return fmt.Sprintf("key-%d", name)
		})
		e := measure.Entry{Name: name, Unit: "good records/s", Kind: kind, Turn: func(*measure.Histogram) (float64, error) {
			return c.subscribe(ctx, rf, topic, good, handler)
		}}
		if kind != "" {
			e.To = base
		}
		if e := r.Add(e); kind == "" {
			base = e
		}
		return err
	}
	poison, keys, twice := c.Failing/5, c.Failing, 2*c.Failing
	return errors.Join(
		add("", fmt.Sprintf("%s, none fails", measure.Many(c.Failing, "record")), c.Failing, func(i int) (int, bool) { return i, false }),
		add("deliver poison", fmt.Sprintf("of %s, the first fifth fail", measure.Many(c.Failing, "record")), c.Failing,
			func(i int) (int, bool) { return i, i < poison }),
		add("", fmt.Sprintf("two records of each of %s, none fails", measure.Many(keys, "key")), twice, func(i int) (int, bool) { return i % keys, false }),
		add("deliver one", fmt.Sprintf("of %s, one fails", measure.Many(keys, "key")), twice, func(i int) (int, bool) { return i % keys, i%keys == 1 }),
		add("deliver tenth", fmt.Sprintf("of %s, a tenth fail", measure.Many(keys, "key")), twice, func(i int) (int, bool) { return i % keys, i%keys%10 == 1 }),
	)
}

// subscribe delivers a topic to a new subscription until so many records succeeded, and removes it.
func (c *deliver) subscribe(ctx context.Context, rf *ringfence.Client, topic string, good int, h ringfence.Handler) (float64, error) {
	c.runs++
	name := fmt.Sprintf("sub-%d", c.runs)
	if _, err := rf.EnsureSubscription(ctx, name, ringfence.SubscriptionConfig{Topic: topic}); err != nil {
		return 0, err
	}
	v, err := rate(ctx, good, h, func(ctx context.Context, h ringfence.Handler) error {
		return rf.Subscribe(ctx, name, h, &ringfence.SubscribeOptions{Concurrency: c.Concurrency})
	})
	return v, errors.Join(err, rf.DeleteSubscription(ctx, name, &ringfence.DeleteSubscriptionOptions{Force: true}))
}
