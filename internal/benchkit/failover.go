package benchkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence"
)

// FailoverConfig says what to measure; zero fields have defaults.
type FailoverConfig struct {
	Common
	Kills      int           // default 100
	Leaves     int           // clean ones; default 20; negative: none
	Partitions int           // default 8
	Processes  int           // consumers; default 3
	Rate       int           // records a second in all; default 4,000
	SessionTTL time.Duration // default 5 s; 2 s on etcd, which notices a death by nothing else
	Durability ringfence.Durability

	promised takeover
}

// takeover is what is promised of a store, in ms.
type takeover struct {
	median, p99, move float64
	ttl               time.Duration // to ask for
}

// takeovers are by the scheme of the registry. On etcd a death is noticed when the lease runs out.
var takeovers = map[string]takeover{
	"":           {20, 100, 10, 5 * time.Second},
	"file":       {20, 100, 10, 5 * time.Second},
	"postgres":   {100, 500, 50, 5 * time.Second},
	"postgresql": {100, 500, 50, 5 * time.Second},
	"redis":      {100, 500, 50, 5 * time.Second},
	"rediss":     {100, 500, 50, 5 * time.Second},
	"mysql":      {100, 500, 50, 5 * time.Second},
	"mariadb":    {100, 500, 50, 5 * time.Second},
	"sqlite":     {100, 500, 50, 5 * time.Second},
	"etcd":       {3000, 3000, 50, 2 * time.Second},
	"etcds":      {3000, 3000, 50, 2 * time.Second},
}

func (c FailoverConfig) withDefaults() (FailoverConfig, error) {
	c.Common = c.Common.withDefaults()
	setDefault(&c.Kills, 100)
	setDefault(&c.Leaves, 20)
	setDefault(&c.Partitions, 8)
	setDefault(&c.Processes, 3)
	setDefault(&c.Rate, 4000)
	c.promised = takeovers[""]
	if t, ok := takeovers[c.registryScheme()]; ok {
		c.promised = t
	}
	setDefault(&c.SessionTTL, c.promised.ttl)
	setDefault(&c.Durability, ringfence.OS)
	var d demand
	d.positive("--kills", c.Kills)
	d.positive("--rate", c.Rate)
	d.that(c.Processes >= 2, "--processes is %d; expected 2 or more", c.Processes)
	d.that(c.Partitions >= c.Processes, "--partitions %d is less than --processes %d: a process may own nothing", c.Partitions, c.Processes)
	d.that(len(c.Command) > 0, "failover needs a program to start")
	return c, errors.Join(d.errs...)
}

// Failover measures how long a partition stands still: after a kill -9 of its owner, from the kill
// to the first record that the new owner handles; at a clean move, between the last record of the
// old owner and the first of the new one; and whether those that stay notice anything.
func Failover(ctx context.Context, c FailoverConfig) (_ *Result, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	dir, rf, end, err := c.aside(ctx, c.Durability)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := rf.EnsureTopic(ctx, "failover", ringfence.TopicConfig{Partitions: c.Partitions}); err != nil {
		return nil, err
	}
	load, stop := context.WithCancel(ctx)
	loaded := make(chan error, 1)
	go func() { loaded <- c.produce(load, rf) }() // joined below
	f := newFailover(&c, dir)
	err = f.run(ctx)
	f.crew.close()
	stop()
	if err := errors.Join(err, <-loaded); err != nil {
		return nil, err
	}
	return f.result(), nil
}

// produce keeps the load up until ctx ends.
func (c *FailoverConfig) produce(ctx context.Context, rf *ringfence.Client) error {
	tick := time.NewTicker(time.Second / time.Duration(c.Rate))
	defer tick.Stop()
	failed := make(chan error, 1)
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-tick.C:
		}
		p := i % c.Partitions
		rf.ProduceAsync(ctx, "failover", ringfence.Message{Value: make([]byte, 100)}, &ringfence.ProduceOptions{Partition: &p}, func(_ ringfence.Position, err error) {
			if err != nil && ctx.Err() == nil {
				select {
				case failed <- err:
				default: // one is enough
				}
			}
		})
	}
}

// owner is who handles a partition.
type owner struct {
	member int
	epoch  int64
	after  int64 // the epoch of the owner before
	since  int64 // its first record, Unix ns
	first  int64 // the offset of that
}

// failover drives the members. All of its state belongs to one goroutine.
type failover struct {
	c      *FailoverConfig
	crew   *crew
	owner  []owner
	last   map[int]event // by partition, of the owner before
	broken []int         // by partition: how often its worker was stopped or begun

	takeover, worst, move, stay, quiet, broke []float64 // ms, but broke
	repeated                                  int64
}

func newFailover(c *FailoverConfig, dir string) *failover {
	f := &failover{c: c, owner: make([]owner, c.Partitions), last: map[int]event{}, broken: make([]int, c.Partitions)}
	job := memberJob{Dir: dir, Durability: c.Durability, Topic: "failover", SessionTTL: c.SessionTTL}
	f.crew = newCrew(&c.Common, c.Processes, job, f.note)
	return f
}

func (f *failover) run(ctx context.Context) error {
	if err := f.crew.startAll(ctx); err != nil {
		return err
	}
	if err := f.settle(ctx); err != nil {
		return err
	}
	f.move, f.repeated = nil, 0 // the start is no move
	for k := range f.c.Kills {
		if err := f.kill(ctx, k%f.c.Processes); err != nil {
			return fmt.Errorf("kill %d: %w", k+1, err)
		}
		if (k+1)%10 == 0 {
			f.c.Logf("%d of %d kills: median %s ms, worst %s ms", k+1, f.c.Kills, figure(median(f.takeover)), figure(slices.Max(f.takeover)))
		}
	}
	for k := range max(0, f.c.Leaves) {
		if err := f.leave(ctx, k%f.c.Processes); err != nil {
			return fmt.Errorf("leave %d: %w", k+1, err)
		}
	}
	return nil
}

// note keeps the picture of who owns what, and measures clean moves.
func (f *failover) note(h heard) {
	switch h.Kind {
	case kindAssigned, kindBroken:
		for p := range f.broken {
			if p == h.Partition || h.Partition < 0 && f.owner[p].member == h.member {
				f.broken[p]++
			}
		}
	case kindLast:
		f.last[h.Partition] = h.event
	case kindFirst:
		if h.Epoch <= f.owner[h.Partition].epoch {
			return
		}
		f.owner[h.Partition] = owner{member: h.member, epoch: h.Epoch, after: f.owner[h.Partition].epoch, since: h.At, first: h.Offset}
	}
	if h.Kind != kindFirst && h.Kind != kindLast {
		return
	}
	// The two ends of a move are told by two processes, in any order.
	if l, o := f.last[h.Partition], f.owner[h.Partition]; l.Epoch > 0 && o.after == l.Epoch {
		f.move = append(f.move, float64(o.since-l.At)/1e6)
		f.repeated += max(0, l.Offset+1-o.first)
		delete(f.last, h.Partition)
	}
}

// settle waits until every member owns its share.
func (f *failover) settle(ctx context.Context) error {
	return f.crew.until(ctx, "every member to own its share", func(heard) bool { return f.balanced() })
}

func (f *failover) balanced() bool {
	count := make([]int, f.c.Processes)
	for _, o := range f.owner {
		if o.epoch == 0 {
			return false
		}
		count[o.member]++
	}
	return slices.Max(count)-slices.Min(count) <= 1
}

func (f *failover) of(member int) map[int]int64 {
	mine := map[int]int64{} // partition to epoch
	for p, o := range f.owner {
		if o.member == member {
			mine[p] = o.epoch
		}
	}
	return mine
}

// kill kills a member, waits until others handle all of its partitions, and starts it again.
func (f *failover) kill(ctx context.Context, i int) error {
	waiting := f.of(i)
	began := time.Now()
	f.crew.members[i].kill()
	slowest := 0.0
	err := f.crew.until(ctx, "the partitions of the killed member", func(h heard) bool {
		if epoch, ok := waiting[h.Partition]; ok && h.Kind == kindFirst && h.member != i && h.Epoch > epoch {
			ms := float64(h.At-began.UnixNano()) / 1e6
			f.takeover = append(f.takeover, ms)
			slowest = max(slowest, ms)
			delete(waiting, h.Partition)
		}
		return len(waiting) == 0
	})
	if err != nil {
		return err
	}
	f.worst = append(f.worst, slowest)
	return f.rejoin(ctx, i)
}
