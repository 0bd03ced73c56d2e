package benchkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence"
)

// FailoverConfig says what to measure; zero fields have defaults.
type FailoverConfig struct {
	Common
	Kills      int           // default 20
	Leaves     int           // clean ones; default 5; negative: none
	Partitions int           // default 8
	Processes  int           // consumers; default 3
	Rate       int           // records a second in all; default 2,000
	SessionTTL time.Duration // default 5 s
	Durability ringfence.Durability
}

func (c FailoverConfig) withDefaults() (FailoverConfig, error) {
	c.Common = c.Common.withDefaults()
	setDefault(&c.Kills, 20)
	setDefault(&c.Leaves, 5)
	setDefault(&c.Partitions, 8)
	setDefault(&c.Processes, 3)
	setDefault(&c.Rate, 2000)
	setDefault(&c.SessionTTL, 5*time.Second)
	setDefault(&c.Durability, ringfence.OS)
	var d demand
	d.positive("--kills", c.Kills)
	d.positive("--rate", c.Rate)
	d.that(c.Processes >= 2, "--processes is %d; expected 2 or more", c.Processes)
	d.that(c.Partitions >= c.Processes, "--partitions %d is less than --processes %d: a process may own nothing", c.Partitions, c.Processes)
	d.that(len(c.Command) > 0, "failover needs a program to start")
	return c, errors.Join(d.errs...)
}

// patience is how long an event may take before the measurement fails.
const patience = 30 * time.Second

// Failover measures how long a partition stands still: after a kill -9 of its owner, from the kill
// to the first record that the new owner handles; at a clean move, between the last record of the
// old owner and the first of the new one.
func Failover(ctx context.Context, c FailoverConfig) (_ *Result, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	dir, remove, err := c.tempDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: dir, Durability: c.Durability})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	if err := rf.EnsureTopic(ctx, "failover", ringfence.TopicConfig{Partitions: c.Partitions}); err != nil {
		return nil, err
	}
	load, stop := context.WithCancel(ctx)
	loaded := make(chan error, 1)
	go func() { loaded <- c.produce(load, rf) }() // joined below
	f := &failover{c: &c, dir: dir, events: make(chan heard), owner: make([]owner, c.Partitions), last: map[int]event{}}
	err = f.run(ctx)
	f.close()
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

// heard is an event and who told it.
type heard struct {
	member int
	event
	err error
}

// owner is who handles a partition.
type owner struct {
	member int
	epoch  int64
	since  int64 // its first record, Unix ns
	first  int64 // the offset of that
}

// failover drives the members. All of its state belongs to one goroutine.
type failover struct {
	c       *FailoverConfig
	dir     string
	members []*agent
	readers sync.WaitGroup
	events  chan heard
	owner   []owner
	last    map[int]event // by partition, of the owner before

	takeover, worst, move, gap []float64 // ms
	repeated                   int64
}

func (f *failover) run(ctx context.Context) error {
	f.members = make([]*agent, f.c.Processes)
	for i := range f.members {
		if err := f.start(ctx, i); err != nil {
			return err
		}
	}
	if err := f.settle(ctx); err != nil {
		return err
	}
	f.move, f.gap, f.repeated = nil, nil, 0 // the start is no move
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

// start starts member i and the goroutine that listens to it.
func (f *failover) start(ctx context.Context, i int) error {
	a, err := startAgent(ctx, f.c.Command, task{Member: &memberJob{
		Dir: f.dir, Durability: f.c.Durability, Member: fmt.Sprintf("member-%d", i), Topic: "failover", SessionTTL: f.c.SessionTTL}})
	if err != nil {
		return err
	}
	f.members[i] = a
	f.readers.Go(func() {
		for {
			m, err := a.next()
			if err == nil && m.Event == nil {
				continue
			}
			h := heard{member: i, err: err}
			if err == nil {
				h.event = *m.Event
			}
			f.events <- h
			if err != nil {
				return
			}
		}
	})
	return nil
}

// close ends all members and joins their listeners.
func (f *failover) close() {
	for _, a := range f.members {
		if a != nil {
			a.kill()
		}
	}
	done := make(chan struct{})
	go func() { // ends with the listeners, which the loop below lets go
		f.readers.Wait()
		close(done)
	}()
	for {
		select {
		case <-f.events:
		case <-done:
			return
		}
	}
}

// until takes in events until enough says so.
func (f *failover) until(ctx context.Context, what string, enough func(heard) bool) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case h := <-f.events:
			f.note(h)
			if enough(h) {
				return nil
			}
		case <-timer.C:
			return fmt.Errorf("waited %s for %s; owners are %v", patience, what, f.owner)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// note keeps the picture of who owns what, and measures clean moves.
func (f *failover) note(h heard) {
	switch h.Kind {
	case "last":
		f.last[h.Partition] = h.event
	case "first":
		if h.Epoch <= f.owner[h.Partition].epoch {
			return
		}
		f.owner[h.Partition] = owner{member: h.member, epoch: h.Epoch, since: h.At, first: h.Offset}
	}
	// The two ends of a move are told by two processes, in any order.
	l, ok := f.last[h.Partition]
	if o := f.owner[h.Partition]; ok && o.epoch == l.Epoch+1 && (h.Kind == "first" || h.Kind == "last") {
		f.move = append(f.move, float64(o.since-l.At)/1e6)
		f.repeated += max(0, l.Offset+1-o.first)
		delete(f.last, h.Partition)
	}
}

// settle waits until every member owns its share.
func (f *failover) settle(ctx context.Context) error {
	return f.until(ctx, "every member to own its share", func(heard) bool { return f.balanced() })
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
	f.members[i].kill()
	slowest := 0.0
	err := f.until(ctx, "the partitions of the killed member", func(h heard) bool {
		if epoch, ok := waiting[h.Partition]; ok && h.Kind == "first" && h.member != i && h.Epoch > epoch {
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

// rejoin starts a member and waits for it to get its share by clean moves, while the partitions
// that do not move must not stand still.
func (f *failover) rejoin(ctx context.Context, i int) error {
	if err := f.askGaps(ctx, i, nil); err != nil {
		return err
	}
	before := slices.Clone(f.owner)
	if err := f.start(ctx, i); err != nil {
		return err
	}
	if err := f.settle(ctx); err != nil {
		return err
	}
	return f.askGaps(ctx, i, func(h heard) {
		for p, ns := range h.Gaps {
			if f.owner[p] == before[p] && f.owner[p].member == h.member {
				f.gap = append(f.gap, float64(ns)/1e6)
			}
		}
	})
}

// askGaps asks all members but one for their longest gaps.
func (f *failover) askGaps(ctx context.Context, but int, use func(heard)) error {
	left := 0
	for i, a := range f.members {
		if i == but {
			continue
		}
		if err := a.tell("gaps"); err != nil {
			return err
		}
		left++
	}
	return f.until(ctx, "gaps", func(h heard) bool {
		if h.Kind == "gaps" {
			left--
			if use != nil {
				use(h)
			}
		}
		return left == 0
	})
}

// leave ends a member cleanly and starts it again.
func (f *failover) leave(ctx context.Context, i int) error {
	waiting := f.of(i)
	if err := f.members[i].tell("leave"); err != nil {
		return err
	}
	gone := false
	err := f.until(ctx, "the partitions of the leaving member", func(h heard) bool {
		if epoch, ok := waiting[h.Partition]; ok && h.Kind == "first" && h.Epoch > epoch {
			delete(waiting, h.Partition)
		}
		gone = gone || h.Kind == "left" && h.member == i
		return gone && len(waiting) == 0
	})
	if err != nil {
		return err
	}
	f.members[i].kill() // reaps it
	return f.rejoin(ctx, i)
}

func (f *failover) result() *Result {
	r := &Result{Bench: "failover", About: fmt.Sprintf("%d kills and %d clean leaves, %d partitions, %d consumer processes, %d records/s, durability %s",
		f.c.Kills, max(0, f.c.Leaves), f.c.Partitions, f.c.Processes, f.c.Rate, f.c.Durability)}
	add := func(name string, ms []float64) {
		if len(ms) == 0 {
			return
		}
		s := slices.Sorted(slices.Values(ms))
		r.Rows = append(r.Rows, Row{Name: name, Unit: "ms", Rounds: ms, Median: median(ms), Min: s[0], Max: s[len(s)-1],
			P50: 1000 * median(ms), P99: 1000 * s[min(len(s)-1, len(s)*99/100)], Worst: 1000 * s[len(s)-1]})
	}
	add("kill -9 to first record of new owner", f.takeover)
	add("kill -9 to the last of its partitions", f.worst)
	add("clean move, last record to first record", f.move)
	add("partition that stays, longest gap meanwhile", f.gap)
	r.Notes = append(r.Notes,
		fmt.Sprintf("a partition gets a record every %s ms, which is part of each figure", figure(1000*float64(f.c.Partitions)/float64(f.c.Rate))),
		fmt.Sprintf("records handled twice at %d clean moves: %d", len(f.move), f.repeated))
	return r
}
