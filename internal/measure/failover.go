package measure

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/script"
	"github.com/ringfence/ringfence/registry"
)

// failover measures how long a partition stands still: from a kill -9 of its owner to the new one's first record, at a
// clean move between the records of both; and whether those that stay notice anything.
type failover struct {
	Kills, Leaves, Partitions, Processes, Rate int
	SessionTTL                                 time.Duration
}

func (c *failover) flags(fl *pflag.FlagSet, _ *Common) {
	numberVar(fl, &c.Kills, "kills", 100, 1, "consumer processes to kill, one after another")
	numberVar(fl, &c.Leaves, "leaves", 20, 0, "consumer processes that leave cleanly")
	numberVar(fl, &c.Partitions, "partitions", 8, 1, "partitions")
	numberVar(fl, &c.Processes, "processes", 3, 2, "consumer processes")
	numberVar(fl, &c.Rate, "rate", 4000, 1, "records produced a second")
	fl.DurationVar(&c.SessionTTL, "session-ttl", 0, "after this `time` a silent member is dead; a killed one is noticed earlier (0: 5s; 2s on etcd)")
}

func (c *failover) demand(d *demands, _ *Common) {
	d.that(c.SessionTTL == 0 || c.SessionTTL >= registry.MinSessionTTL && c.SessionTTL <= registry.MaxSessionTTL,
		"--session-ttl %s: expected %s to %s", c.SessionTTL, registry.MinSessionTTL, registry.MaxSessionTTL)
	d.that(c.Partitions >= c.Processes, "--partitions %d is less than --processes %d: a process may own nothing", c.Partitions, c.Processes)
}

func (c *failover) measure(ctx context.Context, r *run) {
	f := &failing{failover: c, run: r, durability: cmp.Or(r.Durability, ringfence.OS), ttl: c.SessionTTL}
	f.owner, f.broken, f.last = make([]owner, c.Partitions), make([]int, c.Partitions), map[int]event{}
	if f.ttl == 0 {
		if f.ttl = 5 * time.Second; r.kind() == "etcd" { // which notices a death by nothing else
			f.ttl = 2 * time.Second
		}
	}
	rf := r.open(ctx, "", f.durability)
	script.Check(rf.EnsureTopic(ctx, "failover", ringfence.TopicConfig{Partitions: c.Partitions}))
	stop := r.Beside(ctx, func(ctx context.Context) error { return c.produce(ctx, rf) })
	f.crew = r.crew(ctx, r.Script, c.Processes, func(i int) harness.Job {
		return &memberJob{site: site{Dir: r.dir, Durability: f.durability}, Topic: "failover", SessionTTL: f.ttl, Member: fmt.Sprintf("member-%d", i)}
	}, f.note)
	f.hurt(ctx)
	script.Check(stop())
	f.result()
}

// produce keeps the load up until ctx ends.
func (c *failover) produce(ctx context.Context, rf *ringfence.Client) error {
	w := NewWindow(1 << 20)
	return script.Try(func(*script.Script) {
		w.Pace(ctx, time.Second/time.Duration(c.Rate), math.MaxInt, func(i int) {
			p := i % c.Partitions
			rf.ProduceAsync(ctx, "failover", ringfence.Message{Value: make([]byte, 100)}, &ringfence.ProduceOptions{Partition: &p}, func(_ ringfence.Position, err error) {
				if ctx.Err() != nil {
					err = nil
				}
				w.Leave(err)
			})
		})
	})
}

// owner is the member that handles a partition.
type owner struct {
	member int
	epoch  int64
	after  int64 // the epoch of the owner before
	since  int64 // its first record, Unix ns
	first  int64 // the offset of that
}

// failing is a run of failover. All of its state belongs to one goroutine.
type failing struct {
	*failover
	*run
	durability ringfence.Durability
	ttl        time.Duration
	crew       *crew
	owner      []owner
	last       map[int]event // by partition, of the owner before
	broken     []int         // by partition: how often its worker was stopped or begun

	takeover, worst, move []float64 // ms
	repeated              int64
	broke                 int // interruptions of partitions that stayed
}

func (f *failing) hurt(ctx context.Context) {
	f.settle(ctx)
	f.move, f.repeated = nil, 0 // the start is no move
	for k := range f.Kills {
		f.kill(ctx, k%f.Processes)
		if (k+1)%10 == 0 {
			f.Logf("%d of %d kills: median %s ms, worst %s ms", k+1, f.Kills, Number(Median(f.takeover)), Number(slices.Max(f.takeover)))
		}
	}
	for k := range f.Leaves {
		f.leave(ctx, k%f.Processes)
	}
}

// note keeps track of the owners, and measures clean moves.
func (f *failing) note(h heard) {
	switch h.Kind {
	case kindAssigned, kindBroken:
		for p := range f.broken {
			if p == h.Partition || h.Partition < 0 && f.owner[p].member == h.member {
				f.broken[p]++
			}
		}
		return
	case kindLast:
		f.last[h.Partition] = h.event
	case kindFirst:
		if h.Epoch <= f.owner[h.Partition].epoch {
			return
		}
		f.owner[h.Partition] = owner{member: h.member, epoch: h.Epoch, after: f.owner[h.Partition].epoch, since: h.At, first: h.Offset}
	default:
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
func (f *failing) settle(ctx context.Context) {
	f.crew.until(ctx, "every member to own its share", func(heard) bool {
		owners := make([]int, len(f.owner))
		for p, o := range f.owner {
			if o.epoch > 0 {
				owners[p] = o.member + 1
			}
		}
		return even(owners, f.Processes)
	})
}

// waiting are the partitions of a member, with its epochs, that no other one has begun with.
type waiting map[int]int64

func (f *failing) of(member int) waiting {
	mine := waiting{}
	for p, o := range f.owner {
		if o.member == member {
			mine[p] = o.epoch
		}
	}
	return mine
}

func (w waiting) arrive(h heard) bool {
	epoch, ok := w[h.Partition]
	if ok = ok && h.Kind == kindFirst && h.Epoch > epoch; ok {
		delete(w, h.Partition)
	}
	return ok
}

// kill kills a member, waits until others handle all of its partitions, and starts it again.
func (f *failing) kill(ctx context.Context, i int) {
	left := f.of(i)
	began := time.Now()
	f.crew.members[i].End()
	slowest := 0.0
	f.crew.until(ctx, "the partitions of the killed member", func(h heard) bool {
		if h.member != i && left.arrive(h) {
			ms := float64(h.At-began.UnixNano()) / 1e6
			f.takeover = append(f.takeover, ms)
			slowest = max(slowest, ms)
		}
		return len(left) == 0
	})
	f.worst = append(f.worst, slowest)
	f.rejoin(ctx, i)
}

// leave ends a member cleanly and starts it again.
func (f *failing) leave(ctx context.Context, i int) {
	left := f.of(i)
	f.watch(ctx, i, func() {
		script.Check(f.crew.members[i].Tell("leave"))
		gone := false
		f.crew.until(ctx, "the partitions of the leaving member", func(h heard) bool {
			left.arrive(h)
			gone = gone || h.Kind == kindLeft && h.member == i
			return gone && len(left) == 0
		})
	})
	f.crew.members[i].End()
	f.rejoin(ctx, i)
}

// rejoin starts a member again and waits for it to get its share by clean moves.
func (f *failing) rejoin(ctx context.Context, i int) {
	f.watch(ctx, i, func() {
		f.crew.start(ctx, i)
		f.settle(ctx)
	})
}

// watch counts the interruptions of partitions that stay with members other than i while others move.
func (f *failing) watch(ctx context.Context, i int, moves func()) {
	f.crew.ask(ctx, kindCPU, i, nil)
	before, broken := slices.Clone(f.owner), slices.Clone(f.broken)
	moves()
	f.crew.ask(ctx, kindCPU, i, nil)
	for p := range f.owner {
		if f.owner[p] == before[p] && f.owner[p].member != i {
			f.broke += f.broken[p] - broken[p]
		}
	}
}

func (f *failing) result() {
	for _, row := range []struct {
		name string
		ms   []float64
	}{
		{"kill -9 to first record of new owner", f.takeover},
		{"kill -9 to the last of its partitions", f.worst},
		{"clean move, last record to first record", f.move},
	} {
		if len(row.ms) > 0 {
			f.res.Rows = append(f.res.Rows, SampleRow(row.name, row.ms))
		}
	}
	f.Show("takeover", "x", quantile(f.takeover, 0.99)/float64(f.ttl.Milliseconds()))
	f.Show("repeated", "records", float64(f.repeated))
	f.Show("interrupted", "times", float64(f.broke))
	f.res.Notes = []string{
		fmt.Sprintf("a silent member is dead after %s (its session TTL, or lease); a killed one is noticed earlier where the store can", f.ttl),
		fmt.Sprintf("a partition gets a record every %s ms, which is part of each figure", Number(1000*float64(f.Partitions)/float64(f.Rate))),
	}
	f.done("%s and %s, %s, %d consumer processes, %d records/s, durability %s",
		Many(f.Kills, "kill"), Many(f.Leaves, "clean leave"), Many(f.Partitions, "partition"), f.Processes, f.Rate, f.durability)
}
