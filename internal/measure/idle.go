package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/rest"
	"github.com/ringfence/ringfence/internal/script"
	"github.com/ringfence/ringfence/push"
)

// idle measures a group to which nothing is produced, and a daemon whose subscriptions have nothing to deliver.
type idle struct{ Partitions, Processes, Subscriptions int }

func (c *idle) flags(fl *pflag.FlagSet, common *Common) {
	common.turnsVar(fl)
	numberVar(fl, &c.Partitions, "partitions", 64, 1, "partitions")
	numberVar(fl, &c.Processes, "processes", 3, 1, "consumer processes")
	numberVar(fl, &c.Subscriptions, "subscriptions", 100, 1, "subscriptions of one shard that a daemon delivers")
}

func (c *idle) measure(ctx context.Context, r *run) {
	rf := r.open(ctx, "", ringfence.Sync)
	script.Check(rf.EnsureTopic(ctx, "idle", ringfence.TopicConfig{Partitions: c.Partitions}))
	owner := make([]int, c.Partitions)
	crew := r.crew(ctx, r.Script, c.Processes, func(i int) harness.Job {
		return &memberJob{site: site{Dir: r.dir}, Topic: "idle", Member: fmt.Sprintf("member-%d", i)}
	}, func(h heard) {
		if h.Kind == kindAssigned {
			owner[h.Partition] = h.member + 1
		}
	})
	crew.until(ctx, "every member to own its share", func(heard) bool { return even(owner, c.Processes) })
	r.Add(Entry{Name: "an idle group", Unit: "% of a core", Kind: "idle", Turn: func(*Turn) float64 {
		return crew.load(ctx, r.For)
	}})
	c.enterDaemon(ctx, r, rf)
	r.play()
	r.done("%s, %s, no records, all processes together; a daemon of %s; %s of %s",
		Many(c.Processes, "consumer process"), Many(c.Partitions, "partition"), Many(c.Subscriptions, "subscription"), Many(r.Rounds, "round"), r.For)
}

// load is the processor time that all members use, in percent of a core, for a while.
func (c *crew) load(ctx context.Context, d time.Duration) float64 {
	used, began := time.Duration(0), time.Now()
	c.ask(ctx, kindCPU, -1, func(h heard) { used -= h.CPU })
	c.pass(ctx, d)
	c.ask(ctx, kindCPU, -1, func(h heard) { used += h.CPU })
	return 100 * float64(used) / float64(time.Since(began))
}

// enterDaemon enters the processor time of a daemon that has many subscriptions and nothing to deliver.
func (c *idle) enterDaemon(ctx context.Context, r *run, rf *ringfence.Client) {
	script.Check(rf.EnsureTopic(ctx, "quiet", ringfence.TopicConfig{Partitions: 1}))
	for i := range c.Subscriptions {
		script.Must(rf.Admin().CreateSubscription(ctx, fmt.Sprintf("quiet-%d", i), admin.SubscriptionConfig{
			Topic: "quiet", Endpoint: admin.EndpointConfig{URL: "http://127.0.0.1:9/"}, // nothing is ever posted
		}))
	}
	daemon := r.crew(ctx, r.Script, 1, func(int) harness.Job { return &daemonJob{site: site{Dir: r.dir}} }, nil)
	c.awaitShards(ctx, rf)
	for late, rests := time.Now().Add(calmDown), false; !rests && time.Now().Before(late); {
		daemon.pass(ctx, 100*time.Millisecond)
		daemon.ask(ctx, kindCPU, -1, func(h heard) { rests = h.Resting })
	}
	r.Add(Entry{Name: "a daemon of idle subscriptions", Unit: "% of a core", Kind: "idle daemon", Turn: func(*Turn) float64 {
		return daemon.load(ctx, r.For)
	}})
}

// calmDown is how long a daemon that owns all shards may take until it rests: on some stores it never does.
const calmDown = 20 * time.Second

// awaitShards waits until the daemon owns all shards.
func (c *idle) awaitShards(ctx context.Context, rf *ringfence.Client) {
	wait(ctx, patience, fmt.Sprintf("a daemon to be in %d groups", c.Subscriptions), func() bool {
		members := 0
		for _, e := range script.Must(rf.Registry().List(ctx, "groups/quiet-")).Entries {
			if e.Session != "" {
				members++
			}
		}
		return members == c.Subscriptions
	})
}

// daemonJob is a process that delivers all subscriptions, and says what it uses when it is asked.
type daemonJob struct{ site }

// Run delivers until its starter is gone.
func (j *daemonJob) Run(ctx context.Context, talk *harness.Talk) error {
	return script.Try(func(s *script.Script) {
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
			script.Check(talk.Say(&event{Kind: question, CPU: ProcessorTime(), Resting: memory.Resting()}))
		}
		script.Check(resting())
		script.Check(served())
	})
}
