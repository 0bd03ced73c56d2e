package benchkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/measure"
)

// reshards measures how long a key waits when the number of shards of a subscription changes under load,
// with records parked that the new shards take over.
type reshards struct {
	Partitions int
	Shards     []int
	Members    int
	Keys       int
	Rate       int
	Work       int // µs
	Parked     int
	ParkedKeys int
}

const turned = "turned" // the topic and its subscription

func (c *reshards) settings(s *settings) {
	s.rounds("changes of the number of shards")
	s.time(500*time.Millisecond, "time before and after a change")
	s.number(&c.Partitions, "partitions", 16, 1, "partitions of the topic")
	s.numbers(&c.Shards, "shards", []int{8, 16, 6}, "numbers of shards, one after the other and from the first again")
	s.number(&c.Members, "members", 2, 1, "members, in this process")
	s.number(&c.Keys, "keys", 1000, 1, "keys")
	s.number(&c.Rate, "rate", 5000, 1, "records a second")
	s.number(&c.Work, "work", 1000, -1, "`microseconds` that a delivery takes (-1: none)")
	s.number(&c.Parked, "parked", 10_000, -1, "records that are parked (-1: none)")
	s.number(&c.ParkedKeys, "parked-keys", 1000, 1, "different keys of them")
	s.also(func() {
		s.that(len(c.Shards) > 1, "--shards %v: expected two or more", c.Shards)
		s.that(slices.Max(append([]int{1}, c.Shards...)) <= c.Partitions, "--shards %v: expected at most --partitions, %d", c.Shards, c.Partitions)
	})
}

func (c *reshards) measure(ctx context.Context, r *run) (err error) {
	rf, err := r.open(ctx, "/data", ringfence.OS)
	if err != nil {
		return err
	}
	if err := rf.EnsureTopic(ctx, turned, ringfence.TopicConfig{Partitions: c.Partitions}); err != nil {
		return err
	}
	d, err := rf.EnsureSubscription(ctx, turned, untilRedriven(turned, c.Shards[0]))
	if err != nil {
		return err
	}
	load := newKeyLoad(rf, turned, c.Keys, c.Rate)
	leave, err := r.deliverers(ctx, "/data", turned, c.Members, c.take(load))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	if err := c.park(ctx, r, rf, d.Group()); err != nil {
		return err
	}
	stop := load.start(ctx)
	base := r.Add(measure.Entry{Name: "longest wait of a record, no change", Unit: "ms", Turn: func(*measure.Histogram) (float64, error) {
		load.worst()
		return waited(ctx, load, r.For)
	}})
	at := 0
	turn := r.Add(measure.Entry{Name: "longest wait of a record, the shards change", Unit: "ms", To: base, Turn: func(*measure.Histogram) (float64, error) {
		at++
		load.worst()
		if _, err := rf.Reshard(ctx, turned, c.Shards[at%len(c.Shards)], nil); err != nil {
			return 0, err
		}
		if err := settledSets(ctx, rf); err != nil {
			return 0, err
		}
		return waited(ctx, load, r.For)
	}})
	if err := errors.Join(r.play(), stop()); err != nil {
		return err
	}
	if err := load.settled(ctx); err != nil {
		return err
	}
	r.Show("turn", "ms", 0, []float64{slices.Max(turn.Rounds)})
	r.Show("turn order", "records", 0, []float64{float64(load.wrong())}, measure.Many(load.sent.Load(), "record"))
	r.res.Notes = append(r.res.Notes, fmt.Sprintf("of %s %d were lost or out of order, and %d were delivered twice",
		measure.Many(load.sent.Load(), "record"), load.wrong(), load.doubled.Load()))
	return r.done("%s, %s in turn, %s, %s with %d records a second, %s, deliveries of %d µs, durability os, %s", measure.Many(c.Partitions, "partition"),
		strings.Trim(fmt.Sprint(c.Shards), "[]")+" shards", measure.Many(c.Members, "member"), measure.Many(c.Keys, "key"), c.Rate,
		measure.Many(max(0, c.Parked), "parked record"), max(0, c.Work), measure.Many(r.Rounds, "change"))
}

// waited lets a load go on for a while, and says how long a record of it waited at most, in ms.
func waited(ctx context.Context, l *keyLoad, d time.Duration) (float64, error) {
	select {
	case <-time.After(d):
		return l.worst(), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// take handles a record: one of the load, or one that fails.
func (c *reshards) take(load *keyLoad) ringfence.Handler {
	return func(_ context.Context, m *ringfence.Message) error {
		if len(m.Key) > 0 && m.Key[0] == '!' {
			return errPoison
		}
		if c.Work > 0 {
			time.Sleep(time.Duration(c.Work) * time.Microsecond)
		}
		return load.take(m.Key, m.Value)
	}
}

// park produces records that fail, and waits until they are parked: then nothing is left of the topic.
func (c *reshards) park(ctx context.Context, r *run, rf *ringfence.Client, group string) error {
	if c.Parked < 0 {
		return nil
	}
	r.Bench.Logf("parking %s", measure.Many(c.Parked, "record"))
	w := measure.NewWindow(1024)
	_, err := w.Fill(func(n int) bool { return n < c.Parked }, func(n int) {
		m := ringfence.Message{Key: fmt.Appendf(nil, "!%d", n%c.ParkedKeys), Value: make([]byte, 100)}
		rf.ProduceAsync(ctx, turned, m, nil, func(_ ringfence.Position, err error) { w.Leave(err) })
	})
	if err != nil {
		return err
	}
	return noneLeft(ctx, rf, group)
}

// settledSets waits until one shard set delivers and the ones before it are done.
func settledSets(ctx context.Context, rf *ringfence.Client) error {
	return wait(ctx, time.Minute, "the turn of the shards to end", func() (bool, error) {
		d, err := rf.DescribeSubscription(ctx, turned)
		if err != nil {
			return false, err
		}
		for i, set := range d.Sets {
			if set.State == "making" || set.State == "closing" || i == len(d.Sets)-1 && set.State != "active" {
				return false, nil
			}
		}
		return true, nil
	})
}
