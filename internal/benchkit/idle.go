package benchkit

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/internal/rest"
	"github.com/ringfence/ringfence/push"
)

// idle measures what a group costs to which nothing is produced, and a daemon whose subscriptions have nothing to
// deliver.
type idle struct {
	Partitions    int `default:"64" usage:"partitions"`
	Processes     int `default:"3" usage:"consumer processes"`
	Subscriptions int `default:"100" usage:"subscriptions of one shard that a daemon delivers"`
}

func (c *idle) measure(ctx context.Context, r *run) {
	rf := r.open(ctx, "", ringfence.Sync)
	check(rf.EnsureTopic(ctx, "idle", ringfence.TopicConfig{Partitions: c.Partitions}))
	owner := make([]int, c.Partitions)
	crew := r.crew(ctx, r.Script, c.Processes, func(i int) harness.Job {
		return &memberJob{site: site{Dir: r.dir}, Topic: "idle", Member: fmt.Sprintf("member-%d", i)}
	}, func(h heard) {
		if h.Kind == kindAssigned {
			owner[h.Partition] = h.member + 1
		}
	})
	crew.until(ctx, "every member to own its share", func(heard) bool { return even(owner, c.Processes) })
	args := []any{measure.Many(c.Processes, "process"), measure.Many(c.Partitions, "partition")}
	r.Add(measure.Entry{Name: "an idle group", Unit: "% of a core", Kind: "idle", Size: c.Processes, Args: args, Turn: func(*measure.Turn) float64 {
		return crew.load(ctx, r.For)
	}})
	told := c.enterDaemon(ctx, r, rf)
	r.play()
	told()
	r.done("%s, %s, no records, all processes together; a daemon of %s; %s of %s",
		measure.Many(c.Processes, "consumer process"), measure.Many(c.Partitions, "partition"), measure.Many(c.Subscriptions, "subscription"), measure.Many(r.Rounds, "round"), r.For)
}

// load is the processor time that all members use, in percent of a core, for a while.
func (c *crew) load(ctx context.Context, d time.Duration) float64 {
	used, began := time.Duration(0), time.Now()
	c.ask(ctx, kindCPU, -1, func(h heard) { used -= h.CPU })
	c.pass(ctx, d)
	c.ask(ctx, kindCPU, -1, func(h heard) { used += h.CPU })
	return 100 * float64(used) / float64(time.Since(began))
}

// enterDaemon enters the processor time of a daemon that has many subscriptions and nothing to deliver, and what
// tells its memory and its sessions when all rounds are over.
func (c *idle) enterDaemon(ctx context.Context, r *run, rf *ringfence.Client) (told func()) {
	check(rf.EnsureTopic(ctx, "quiet", ringfence.TopicConfig{Partitions: 1}))
	for i := range c.Subscriptions {
		must(rf.EnsureSubscription(ctx, fmt.Sprintf("quiet-%d", i), ringfence.SubscriptionConfig{
			Topic: "quiet", Endpoint: ringfence.SubscriptionEndpoint{URL: "http://127.0.0.1:9/"}, // nothing is ever posted
		}))
	}
	daemon := r.crew(ctx, r.Script, 1, func(int) harness.Job { return &daemonJob{site: site{Dir: r.dir}} }, nil)
	sessions := c.settled(ctx, rf)
	for late, rests := time.Now().Add(calmDown), false; !rests && time.Now().Before(late); {
		daemon.pass(ctx, 100*time.Millisecond)
		daemon.ask(ctx, kindCPU, -1, func(h heard) { rests = h.Resting })
	}
	args := []any{measure.Many(c.Subscriptions, "subscription")}
	r.Add(measure.Entry{Name: "a daemon of idle subscriptions", Unit: "% of a core", Kind: "idle daemon", Args: args, Turn: func(*measure.Turn) float64 {
		return daemon.load(ctx, r.For)
	}})
	return func() {
		daemon.ask(ctx, kindCPU, -1, func(h heard) { r.Show("idle memory", "MB", 0, []float64{float64(h.Resident) / 1e6}, args...) })
		r.Show("idle sessions", "", 0, []float64{float64(sessions)}, args...)
	}
}

// calmDown is how long a daemon that has all shards may take until it rests: on some stores it never does.
const calmDown = 20 * time.Second

// settled waits until the daemon has all shards, and says under how many sessions.
func (c *idle) settled(ctx context.Context, rf *ringfence.Client) (sessions int) {
	wait(ctx, patience, fmt.Sprintf("a daemon to be in %d groups", c.Subscriptions), func() bool {
		members, all := 0, map[string]bool{}
		for _, e := range must(rf.Registry().List(ctx, "groups/quiet-")).Entries {
			if e.Session != "" {
				members++
				all[e.Session] = true
			}
		}
		sessions = len(all)
		return members == c.Subscriptions
	})
	return sessions
}

// daemonJob is a process that delivers all subscriptions, and says what it uses when it is asked.
type daemonJob struct{ site }

// Run delivers until nobody listens any more.
func (j *daemonJob) Run(ctx context.Context, talk *harness.Talk) error {
	return measure.Try(func(s *measure.Script) {
		rf := j.open(ctx, s)
		served := s.Beside(ctx, func(ctx context.Context) error {
			return push.Serve(ctx, rf, &push.ServeOptions{Config: push.Config{AllowNet: loopback()}})
		})
		var memory rest.Rester // as "ringfence serve" has one
		resting := s.Beside(ctx, func(ctx context.Context) error {
			memory.Run(ctx)
			return nil
		})
		for question, ok := talk.Hear(); ok; question, ok = talk.Hear() {
			check(talk.Say(&event{Kind: question, CPU: measure.ProcessorTime(), Resident: memoryOf(resident), Resting: memory.Resting()}))
		}
		check(resting())
		check(served())
	})
}
