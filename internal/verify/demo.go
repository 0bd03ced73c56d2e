package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/history"
)

// The pace of the story.
const (
	demoTTL  = time.Second
	demoKeys = 200
)

// DemoResult is what came of a demo of a group.
type DemoResult struct {
	Partitions int `json:"partitions"`
	Consumers  int `json:"consumers"`
	DemoOutcome

	// Owners are the owners of the partitions after each scene that changed them.
	Owners []Owners `json:"owners"`

	// Takeover is the time from kill -9 until the last partition of the dead consumer had a new owner;
	// FirstRecord until the new owners had begun with the first record of each.
	TakeoverMillis    float64 `json:"takeover_ms"`
	FirstRecordMillis float64 `json:"first_record_ms"`
	MovedOnReturn     int     `json:"moved_on_return"` // partitions that moved when the dead consumer came back
	LeastOnReturn     int     `json:"least_on_return"` // and how many had to
	ExpiryMillis      float64 `json:"expiry_ms"`       // from SIGSTOP until others owned its partitions
	StaleCommits      int64   `json:"stale_commits"`   // that the stopped consumer wrote when it woke up
	StaleRefused      int64   `json:"stale_refused"`

	InFlight  int64 `json:"in_flight"` // the bound of Duplicated
	Refused   int64 `json:"refused_commits"`
	Takeovers int64 `json:"takeovers"`
	Handoffs  int64 `json:"handoffs"`
}

// Owners are the partitions of each live consumer at a moment.
type Owners struct {
	Scene      int              `json:"scene"` // as the story counts them
	Partitions map[string][]int `json:"partitions"`
}

// groupDemo is the story of a group.
type groupDemo struct {
	*stage
	result DemoResult
	victim string // of kill -9
}

func (c *DemoConfig) validate() error {
	return errors.Join(within("partitions", c.Partitions, 1, 256), within("consumers", c.Consumers, 2, 26), within("messages", c.Messages, 100, 10_000_000))
}

// Demo tells the story of a group, with a kill -9 and a stop beyond a lease, and judges it. The error is ErrBroken when
// a promise was broken, and another one when the story did not come to its end.
func Demo(ctx context.Context, c DemoConfig) (*DemoResult, error) {
	if err := c.validate(); err != nil {
		return new(DemoResult), err
	}
	suffix := "-demo-" + strings.ToLower(rand.Text()[:6])
	d := &groupDemo{result: DemoResult{Partitions: c.Partitions, Consumers: c.Consumers, Owners: []Owners{}}}
	out, err := tell(ctx, &c, "payments"+suffix, "billing"+suffix, func(st *stage) {
		d.stage = st
		check(d.rf.EnsureTopic(ctx, d.topic, ringfence.TopicConfig{Partitions: d.Partitions}))
		for _, scene := range []func(context.Context){d.gather, d.work, d.crash, d.comeBack, d.sleepwalk, d.finish} {
			scene(ctx)
		}
	}, d.verdict)
	d.result.DemoOutcome = out
	return &d.result, err
}

func demoConsumer(i int) string { return string(rune('A' + i)) }

func demoKey(i int) string { return fmt.Sprintf("account-%03d", i%demoKeys) }

// now is the group as it is.
func (d *groupDemo) now(ctx context.Context) api.Group { return must(d.describe(ctx)) }

// await looks at the group until something holds, and returns it as it is then.
func (d *groupDemo) await(ctx context.Context, what string, holds func(api.Group) bool) (last api.Group) {
	check(d.until(ctx, what, patience, d.of(func(g api.Group) bool { last = g; return holds(g) })))
	return last
}

// gather starts the consumers.
func (d *groupDemo) gather(ctx context.Context) {
	d.screen.scene("%d processes share the %d partitions of a topic", d.Consumers, d.Partitions)
	for i := range d.Consumers {
		d.hire(Spec{Name: demoConsumer(i), TTL: demoTTL})
		check(d.start(demoConsumer(i)))
	}
	d.showOwners(d.await(ctx, "every consumer has its share", d.balanced))
}

// work produces the first part and watches it being consumed.
func (d *groupDemo) work(ctx context.Context) {
	d.screen.scene("Records of %d keys are produced and processed", demoKeys)
	began := time.Now()
	d.produce(ctx, d.Messages/4, demoKey)
	stored := time.Since(began)
	d.await(ctx, "the first records are processed", caughtUp)
	d.screen.say("%d records stored in %s and processed in %s, in order for each key", d.produced, ms(stored), ms(time.Since(began)))
}

// crash kills the first consumer in the middle of its work.
func (d *groupDemo) crash(ctx context.Context) {
	d.victim = d.owners(d.now(ctx))[0]
	d.screen.scene("kill -9 %s, in the middle of its work", d.called(d.victim))
	d.produce(ctx, d.Messages/4, demoKey) // more than they can do at once
	before, at := d.now(ctx), history.Now()
	check(d.kill(d.victim))
	d.await(ctx, "the others have its partitions", d.without(d.victim))
	d.await(ctx, "the others have caught up", caughtUp)
	d.measureTakeover(at, owned(before, d.victim), d.victim)
	d.screen.say("every partition had a new owner after %.1f ms, and its next record begun after %.1f ms", d.result.TakeoverMillis, d.result.FirstRecordMillis)
	d.showOwners(d.now(ctx))
}

// comeBack starts the dead consumer again.
func (d *groupDemo) comeBack(ctx context.Context) {
	d.screen.scene("%s comes back: a new incarnation of the same member", d.victim)
	before := d.now(ctx)
	check(d.start(d.victim))
	after := d.await(ctx, "it has its share again", d.balanced)
	d.result.MovedOnReturn, d.result.LeastOnReturn = moved(before, after), d.Partitions/d.Consumers
	if d.result.MovedOnReturn == 0 {
		d.screen.say("every partition has an owner: it stands by")
	} else {
		d.screen.say("%d partitions moved to it, handed over with their progress; %d did not notice", d.result.MovedOnReturn, d.Partitions-d.result.MovedOnReturn)
	}
	d.showOwners(after)
}

// sleepwalk stops the last consumer until its lease is over, and wakes it up.
func (d *groupDemo) sleepwalk(ctx context.Context) {
	owners := d.owners(d.now(ctx))
	name := owners[len(owners)-1]
	d.screen.scene("SIGSTOP %s until its lease of %s is over, then SIGCONT", d.called(name), demoTTL)
	d.produce(ctx, d.Messages/4, demoKey)
	before, at, p := d.now(ctx), history.Now(), d.workers[name].proc
	check(p.Freeze(ctx))
	d.await(ctx, "the others have its partitions", d.without(name))
	d.result.ExpiryMillis = float64(history.Now()-at) / 1e6
	d.screen.say("it was given up after %.0f ms; the others went on from its checkpoints", d.result.ExpiryMillis)
	woken := history.Now()
	check(p.Thaw())
	after := d.await(ctx, "it is back in the group", d.balanced)
	d.measureStale(ctx, woken, owned(before, name), name)
	d.screen.say("it woke up and wrote the checkpoints it still had in mind: %d of %d refused by the store", d.result.StaleRefused, d.result.StaleCommits)
	d.showOwners(after)
}

// finish produces the rest, waits for all of it, and lets all consumers leave.
func (d *groupDemo) finish(ctx context.Context) {
	d.screen.scene("The rest is processed, and all consumers leave")
	began := time.Now()
	d.produce(ctx, d.Messages-d.produced, demoKey)
	d.await(ctx, "everything is processed", caughtUp)
	d.screen.say("all %d records are processed after %s", d.produced, ms(time.Since(began)))
	began = time.Now()
	check(d.dismiss(d.names()))
	d.screen.say("drained and gone in %s", ms(time.Since(began)))
}
