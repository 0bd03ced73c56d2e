package benchkit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/measure"
)

// reshards measures how long a key waits when the number of shards of a subscription changes under load, and when
// its topic grows, with records parked that the new shards take over.
type reshards struct {
	Partitions int   `default:"16" usage:"partitions of the topic"`
	Shards     []int `default:"8,16,6" usage:"numbers of shards, one after the other and from the first again"`
	Members    int   `default:"2" usage:"members, in this process"`
	Keys       int   `default:"1000" usage:"keys"`
	Rate       int   `default:"5000" usage:"records a second"`
	Work       int   `default:"1000" least:"-1" usage:"<microseconds> that a delivery takes (-1: none)"`
	Parked     int   `default:"10000" least:"-1" usage:"records that are parked (-1: none)"`
	ParkedKeys int   `default:"1000" usage:"different keys of them"`
}

const turned = "turned" // the topic and its subscription

func (c *reshards) demands(s *settings) {
	s.that(len(c.Shards) > 1, "--shards %v: expected two or more", c.Shards)
	s.that(slices.Max(append([]int{1}, c.Shards...)) <= c.Partitions, "--shards %v: expected at most --partitions, %d", c.Shards, c.Partitions)
}

func (c *reshards) measure(ctx context.Context, r *run) {
	rf := r.open(ctx, "/data", ringfence.OS)
	check(rf.EnsureTopic(ctx, turned, ringfence.TopicConfig{Partitions: c.Partitions}))
	d := must(rf.EnsureSubscription(ctx, turned, untilRedriven(turned, c.Shards[0])))
	load := newKeyLoad(rf, turned, c.Keys, c.Rate)
	r.deliverers(ctx, "/data", turned, c.Members, working(c.Work, func(_ context.Context, m *ringfence.Message) error { return load.take(m.Key, m.Value) }))
	c.park(ctx, r, rf, d.Group())
	stop := r.Beside(ctx, load.produce)
	base := r.Add(measure.Entry{Name: "longest wait of a record, no change", Unit: "ms", Turn: func(*measure.Turn) float64 {
		load.longest.Store(0)
		return load.worst(ctx, r.For)
	}})
	at, storages := 0, 1
	turn := r.Add(measure.Entry{Name: "longest wait of a record, the shards change", Unit: "ms", To: base, Turn: func(*measure.Turn) float64 {
		at++
		load.longest.Store(0)
		must(rf.Reshard(ctx, turned, c.Shards[at%len(c.Shards)], nil))
		settledSets(ctx, rf, storages-1)
		return load.worst(ctx, r.For)
	}})
	growth := r.Add(measure.Entry{Name: "longest wait of a record, the topic grows", Unit: "ms", To: base, Turn: func(*measure.Turn) float64 {
		storages++
		load.longest.Store(0)
		must(rf.AddStorage(ctx, turned, c.Partitions))
		must(rf.SwitchProduce(ctx, turned))
		settledSets(ctx, rf, storages-1)
		return load.worst(ctx, r.For)
	}})
	r.play()
	check(stop())
	load.settled(ctx)
	r.Show("turn", "ms", 0, []float64{slices.Max(turn.Rounds)})
	r.Show("growth", "ms", 0, []float64{slices.Max(growth.Rounds)})
	r.Show("turn order", "records", 0, []float64{float64(load.wrong())}, measure.Many(load.sent.Load(), "record"))
	r.res.Notes = append(r.res.Notes, fmt.Sprintf("of %s %d were lost or out of order, and %d were delivered twice",
		measure.Many(load.sent.Load(), "record"), load.wrong(), load.doubled.Load()))
	r.done("%s, %s in turn, %s, %s with %d records a second, %s, deliveries of %d µs, durability os, %s", measure.Many(c.Partitions, "partition"),
		strings.Trim(fmt.Sprint(c.Shards), "[]")+" shards", measure.Many(c.Members, "member"), measure.Many(c.Keys, "key"), c.Rate,
		measure.Many(max(0, c.Parked), "parked record"), max(0, c.Work), measure.Many(r.Rounds, "change"))
}

// park produces records that fail, and waits until they are parked: then nothing is left of the topic.
func (c *reshards) park(ctx context.Context, r *run, rf *ringfence.Client, group string) {
	if c.Parked < 0 {
		return
	}
	r.Logf("parking %s", measure.Many(c.Parked, "record"))
	w := measure.NewWindow(1024)
	w.Fill(func(n int) bool { return n < c.Parked }, func(n int) {
		m := ringfence.Message{Key: fmt.Appendf(nil, "!%d", n%c.ParkedKeys), Value: make([]byte, 100)}
		rf.ProduceAsync(ctx, turned, m, nil, func(_ ringfence.Position, err error) { w.Leave(err) })
	})
	noneLeft(ctx, rf, group)
}

// settledSets waits until one shard set delivers that storage topic, and the ones before it are done.
func settledSets(ctx context.Context, rf *ringfence.Client, storage int) {
	wait(ctx, time.Minute, "the turn of the shards to end", func() bool {
		sets := must(rf.DescribeSubscription(ctx, turned)).Sets
		if sets[len(sets)-1].Storage != storage {
			return false
		}
		for i, set := range sets {
			if set.State == "making" || set.State == "closing" || i == len(sets)-1 && set.State != "active" {
				return false
			}
		}
		return true
	})
}
