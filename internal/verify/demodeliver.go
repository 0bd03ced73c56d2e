package verify

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/internal/script"
)

// The cast of the story: what is delivered, and by how many.
const (
	daemonCount  = 3
	customers    = 20
	eachRound    = 7 // records of a customer
	endpointName = "endpoint"
)

func customer(i int) string { return fmt.Sprintf("customer/%d", i%customers) }

// DeliverResult is what came of a demo of deliveries.
type DeliverResult struct {
	DemoOutcome
	DeadLetters int `json:"dead_letters"` // that failed
	Waiting     int `json:"waiting"`      // behind them, of the same key
	Redriven    int `json:"redriven"`
}

// deliverDemo is the story of a subscription.
type deliverDemo struct {
	*stage
	result  DeliverResult
	victims int // daemons that ended so far
}

// DemoDeliver tells the story of a subscription and judges it, as Demo does that of a group. The namespace of the
// client is one of its own, as its daemons deliver all that is there.
func DemoDeliver(ctx context.Context, c DemoConfig) (*DeliverResult, error) {
	var d deliverDemo
	out, err := tell(ctx, &c, "orders", "billing", func(st *stage) {
		d.stage = st
		d.play(ctx)
	}, d.verdict)
	d.result.DemoOutcome = out
	return &d.result, err
}

func (d *deliverDemo) play(ctx context.Context) {
	d.begin(ctx)
	for _, s := range append(d.story(), d.trials()...) {
		d.screen.scene("%s", s.title)
		d.round(ctx)
		for _, do := range s.hurt {
			do(ctx)
		}
		d.awaitGood(ctx, s.until)
		d.screen.say("%s", s.said)
	}
	d.deadLetters(ctx)
	d.redrive(ctx)
	check(d.dismiss(d.names()))
}

// deliverScene is what goes wrong while records are produced, and what is said when those of the good keys have come.
type deliverScene struct {
	title       string
	hurt        []func(context.Context)
	until, said string
}

func (d *deliverDemo) story() []deliverScene {
	return []deliverScene{
		{
			fmt.Sprintf("kill -9 the endpoint (pid %d), while records are produced, and start it again", d.workers[endpointName].proc.PID()),
			[]func(context.Context){d.endpointDies}, "the records of the outage arrive", "what was produced meanwhile arrived, in order for each key",
		}, {
			fmt.Sprintf("kill -9 a daemon (pid %d) at work", d.workers[daemon(0)].proc.PID()),
			[]func(context.Context){d.daemonDies}, "the others deliver its shards", "the others took over its shards, with what was parked there",
		}, {
			"4 shards become 6 while records are delivered, and kill -9 the endpoint again",
			[]func(context.Context){d.reshardTo(6), d.endpointDies}, "all arrives through the new shards", "parked records and the order of each key moved to the new shards",
		},
	}
}

// trials are the scenes of a test.
func (d *deliverDemo) trials() (all []deliverScene) {
	for i, restart := range d.Restart {
		again := func(context.Context) { restart() }
		all = append(all, deliverScene{
			fmt.Sprintf("%d shards, kill -9 a daemon, and restart server %d", 2+i, i),
			[]func(context.Context){d.reshardTo(2 + i), d.daemonDies, again}, "all arrives when the server is back", "nothing was lost",
		})
	}
	if len(d.Grow) > 0 {
		all = append(all, deliverScene{
			"SIGSTOP a daemon, 5 shards, and SIGCONT when the others deliver its records",
			[]func(context.Context){d.daemonStalls(5)}, "all arrives", "what it delivered when it woke up was refused, or was in time",
		})
	}
	for _, n := range d.Grow {
		all = append(all, deliverScene{
			fmt.Sprintf("%d partitions, a daemon leaves, and kill -9 another and the endpoint", n),
			[]func(context.Context){d.growTo(n), d.daemonLeaves, d.daemonDies, d.endpointDies}, "all arrives from both storage topics", "nothing was lost",
		})
	}
	return all
}

func daemon(i int) string { return fmt.Sprintf("daemon %d", 1+i%daemonCount) }

// begin makes the subscription and starts all that take part.
func (d *deliverDemo) begin(ctx context.Context) {
	addr := must(freeAddr(ctx))
	d.subscription = true
	d.endpoint = admin.EndpointConfig{URL: "http://" + addr + "/orders", Timeout: 5 * time.Second}
	d.hire(Spec{Name: endpointName, Endpoint: addr, Forget: d.Forget})
	d.screen.scene("%d daemons deliver a subscription of 4 shards to an HTTP endpoint", daemonCount)
	check(d.rf.EnsureTopic(ctx, d.topic, ringfence.TopicConfig{Partitions: 12}))
	check(d.subscribe(ctx, 4))
	d.startEndpoint(ctx)
	for i := range daemonCount {
		d.workers[daemon(i)] = &worker{run: d.Daemon}
		check(d.start(daemon(i)))
	}
	d.screen.say("it fails every tenth attempt, and always record %d of %s: the poison", poisonNumber, customer(0))
	d.round(ctx)
	d.awaitGood(ctx, "the records of the good keys arrive")
	d.screen.say("all records of the other %d keys arrived; those of %s wait behind the poison", customers-1, customer(0))
}

// endpointDies kills the endpoint, produces, and starts it again.
func (d *deliverDemo) endpointDies(ctx context.Context) {
	check(d.kill(endpointName))
	d.round(ctx)
	d.startEndpoint(ctx)
}

// daemonDies kills the next daemon at work, and starts it again.
func (d *deliverDemo) daemonDies(context.Context) {
	check(d.kill(daemon(d.victims)))
	check(d.start(daemon(d.victims)))
	d.victims++
}

// daemonStalls stops the next daemon until others deliver what it had, through so many shards, and wakes it up.
func (d *deliverDemo) daemonStalls(shards int) func(context.Context) {
	return func(ctx context.Context) {
		p := d.workers[daemon(d.victims)].proc
		check(p.Freeze(ctx))
		d.round(ctx)
		check(d.reshard(ctx, shards))
		d.awaitGood(ctx, "the others deliver its records")
		check(p.Thaw())
		d.victims++
	}
}

// daemonLeaves has the next daemon leave in order, and starts it again.
func (d *deliverDemo) daemonLeaves(context.Context) {
	check(d.dismiss([]string{daemon(d.victims)}))
	check(d.start(daemon(d.victims)))
	d.victims++
}

func (d *deliverDemo) reshardTo(shards int) func(context.Context) {
	return func(ctx context.Context) { check(d.reshard(ctx, shards)) }
}

func (d *deliverDemo) growTo(partitions int) func(context.Context) {
	return func(ctx context.Context) { check(d.grow(ctx, partitions)) }
}

// deadLetters waits until the poison was given up.
func (d *deliverDemo) deadLetters(ctx context.Context) {
	d.screen.scene("The dead letters: only the poison failed, and its key waits behind it")
	all := int(d.sequence[customer(0)]) - poisonNumber
	d.await(ctx, "the poison is given up", func() int64 {
		check(d.readDeadLetters(ctx))
		return int64(all) - d.dead() - int64(d.waiting)
	})
	d.result.DeadLetters, d.result.Waiting = int(d.dead()), d.waiting
	d.screen.say("%d failed, %d wait", d.result.DeadLetters, d.result.Waiting)
}

// redrive mends the endpoint and delivers what failed again.
func (d *deliverDemo) redrive(ctx context.Context) {
	d.screen.scene("The endpoint is mended, the dead letters are redriven, and kill -9 a daemon")
	n := must(d.redriveAll(ctx, patience))
	d.daemonDies(ctx)
	d.result.Redriven = int(n)
	d.await(ctx, "the redriven record and all behind it arrive", func() int64 {
		return int64(len(must(d.rf.Admin().ListDeadLetters(ctx, d.group, nil)))) + d.missing(0)
	})
	d.screen.say("%d record redriven; the %d behind it followed in order", n, d.result.Waiting)
	d.await(ctx, "all shards but the last ones are retired", func() int64 {
		s := must(d.rf.Admin().GetSubscription(ctx, d.group))
		left := int64(len(d.Grow) - s.Set().Storage)
		for _, set := range s.Sets {
			if set.ID != s.Set().ID && set.State != "retired" {
				left++
			}
		}
		return left
	})
}

// await looks until nothing is left. What goes wrong at a look may be better at the next one.
func (d *deliverDemo) await(ctx context.Context, what string, look func() (left int64)) {
	check(d.until(ctx, what, patience, func(context.Context) (_ bool, left int64, err error) {
		err = script.Try(func(*script.Script) { left = look() })
		return left <= 0, left, err
	}))
}

// round produces some records of each customer.
func (d *deliverDemo) round(ctx context.Context) { d.produce(ctx, eachRound*customers, customer) }

// awaitGood waits until the records of all customers but the poisoned one arrived.
func (d *deliverDemo) awaitGood(ctx context.Context, what string) {
	d.await(ctx, what, func() int64 { return d.missing(1) })
}

// missing counts the records, of the customers from one on, behind the last that arrived; gaps before it the judge finds.
func (d *deliverDemo) missing(from int) (left int64) {
	for i := from; i < customers; i++ {
		left += max(0, d.sequence[customer(i)]-int64(d.tally.last[customer(i)]))
	}
	return left
}

// startEndpoint returns when it answers.
func (d *deliverDemo) startEndpoint(ctx context.Context) {
	check(d.start(endpointName))
	transport := http.Transport{DisableKeepAlives: true}
	request := must(http.NewRequestWithContext(ctx, http.MethodGet, d.endpoint.URL, http.NoBody))
	d.await(ctx, "the endpoint answers", func() int64 {
		response, err := transport.RoundTrip(request)
		check(err)
		check(response.Body.Close())
		return 0
	})
}

// verdict shows what the judge found.
func (d *deliverDemo) verdict(st *stage, report *history.Report) {
	o, line := &st.outcome, st.screen.line
	st.screen.scene("The judgement of what the endpoint wrote down before each answer")
	line(o.Lost == 0, "%d records of %d keys produced, %d lost", o.Produced, customers, o.Lost)
	line(o.Reordered == 0, "%d first deliveries out of the order of their key", o.Reordered)
	line(report.Broken[history.OneDeadLetter] == 0, "%d dead letter for 1 poison record", d.result.DeadLetters)
	line(true, "%d delivered again after a crash, which at-least-once allows", o.Duplicated)
}

// freeAddr is a free address of this host.
func freeAddr(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
