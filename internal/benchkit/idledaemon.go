package benchkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/push"
)

// enterDaemon enters the processor time of a daemon that has many subscriptions and nothing to deliver, and what
// tells its memory and its sessions when all rounds are over.
func (c *idle) enterDaemon(ctx context.Context, r *run, rf *ringfence.Client) (told func() error, err error) {
	if err := rf.EnsureTopic(ctx, "quiet", ringfence.TopicConfig{Partitions: 1}); err != nil {
		return nil, err
	}
	for i := range c.Subscriptions {
		_, err := rf.EnsureSubscription(ctx, fmt.Sprintf("quiet-%d", i), ringfence.SubscriptionConfig{
			Topic: "quiet", Endpoint: ringfence.SubscriptionEndpoint{URL: "http://127.0.0.1:9/"}, // nothing is ever posted
		})
		if err != nil {
			return nil, err
		}
	}
	daemon, err := r.start(ctx, &daemonJob{Dir: r.dir})
	if err != nil {
		return nil, err
	}
	r.later(func() error { daemon.End(); return nil })
	sessions, err := c.settled(ctx, rf)
	if err != nil {
		return nil, err
	}
	ask := func() (use daemonUse, err error) {
		if err = daemon.Tell("use"); err == nil {
			err = daemon.Hear(&use)
		}
		return use, err
	}
	args := []any{measure.Many(c.Subscriptions, "subscription")}
	r.Add(measure.Entry{Name: "a daemon of idle subscriptions", Unit: "% of a core", Kind: "idle daemon", Args: args, Turn: func(*measure.Histogram) (float64, error) {
		before, err := ask()
		if err != nil {
			return 0, err
		}
		began, pause := time.Now(), time.NewTimer(r.For)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		after, err := ask()
		return 100 * float64(after.CPU-before.CPU) / float64(time.Since(began)), err
	}})
	return func() error {
		use, err := ask()
		r.Show("idle memory", "MiB", 0, []float64{mib(use.Private)}, args...)
		r.Show("idle sessions", "", 0, []float64{float64(sessions)}, args...)
		return err
	}, nil
}

// settled waits until the daemon has all shards, and says under how many sessions.
func (c *idle) settled(ctx context.Context, rf *ringfence.Client) (sessions int, err error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		members, all := 0, map[string]bool{}
		snap, err := rf.Registry().List(ctx, "groups/quiet-")
		if err != nil {
			return 0, err
		}
		for _, e := range snap.Entries {
			if e.Session != "" {
				members++
				all[e.Session] = true
			}
		}
		if members == c.Subscriptions {
			return len(all), nil
		}
		select {
		case <-tick.C:
		case <-late:
			return 0, fmt.Errorf("waited %s for a daemon to be in %d groups; it is in %d", patience, c.Subscriptions, members)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// daemonJob is a process that delivers all subscriptions, and says what it uses when it is asked.
type daemonJob struct {
	Dir string
	at  Stores
}

// daemonUse is what it has used: processor time so far, and private memory now.
type daemonUse struct {
	CPU     time.Duration
	Private int64
}

// Run delivers until it is told to end, or nobody listens any more.
func (j *daemonJob) Run(ctx context.Context, talk *harness.Talk) (err error) {
	rf, err := j.at.open(ctx, j.Dir, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- push.Serve(ctx, rf, &push.ServeOptions{Config: push.Config{AllowNet: loopback()}}) }() // joined below
	for line, ok := talk.Hear(); ok && line == "use"; line, ok = talk.Hear() {
		cpu, err := measure.ProcessorTime()
		private, e := privateMemory()
		if err = errors.Join(err, e, talk.Say(&daemonUse{cpu, private})); err != nil {
			return err
		}
	}
	cancel()
	return <-served
}
