package verify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/internal/history"
)

// The cast of the story: what is delivered, and by how many.
const (
	daemonCount  = 3
	customers    = 20
	eachRound    = 15 // records of a customer
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
	out, err := tell(ctx, &c, "orders", "billing", func(st *stage) error {
		d.stage = st
		return d.play(ctx)
	}, d.verdict)
	d.result.DemoOutcome = out
	return &d.result, err
}

func (d *deliverDemo) play(ctx context.Context) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	for _, s := range append(d.story(), d.trials()...) {
		d.screen.scene("%s", s.title)
		for _, do := range append([]func(context.Context) error{d.round}, s.hurt...) {
			if err := do(ctx); err != nil {
				return err
			}
		}
		if err := d.awaitGood(ctx, s.until); err != nil {
			return err
		}
		d.screen.say("%s", s.said)
	}
	if err := d.deadLetters(ctx); err != nil {
		return err
	}
	if err := d.redrive(ctx); err != nil {
		return err
	}
	return d.dismiss(d.names())
}

// deliverScene is what goes wrong while records are produced, and what is said when those of the good keys have come.
type deliverScene struct {
	title       string
	hurt        []func(context.Context) error
	until, said string
}

func (d *deliverDemo) story() []deliverScene {
	return []deliverScene{
		{
			fmt.Sprintf("kill -9 the endpoint (pid %d), while records are produced, and start it again", d.workers[endpointName].proc.PID()),
			[]func(context.Context) error{d.endpointDies}, "the records of the outage arrive", "what was produced meanwhile arrived, in order for each key",
		}, {
			fmt.Sprintf("kill -9 a daemon (pid %d) at work", d.workers[daemon(0)].proc.PID()),
			[]func(context.Context) error{d.daemonDies}, "the others deliver its shards", "the others took over its shards, with what was parked there",
		}, {
			"4 shards become 6 while records are delivered, and kill -9 the endpoint again",
			[]func(context.Context) error{d.reshardTo(6), d.endpointDies}, "all arrives through the new shards", "parked records and the order of each key moved to the new shards",
		},
	}
}

// trials are the scenes of a test.
func (d *deliverDemo) trials() (all []deliverScene) {
	for i, restart := range d.Restart {
		again := func(context.Context) error { restart(); return nil }
		all = append(all, deliverScene{
			fmt.Sprintf("%d shards, kill -9 a daemon, and restart server %d", 2+i, i),
			[]func(context.Context) error{d.reshardTo(2 + i), d.daemonDies, again}, "all arrives when the server is back", "nothing was lost",
		})
	}
	for _, n := range d.Grow {
		all = append(all, deliverScene{
			fmt.Sprintf("%d partitions, a daemon leaves, and kill -9 another and the endpoint", n),
			[]func(context.Context) error{d.growTo(n), d.daemonLeaves, d.daemonDies, d.endpointDies}, "all arrives from both storage topics", "nothing was lost",
		})
	}
	return all
}

func daemon(i int) string { return fmt.Sprintf("daemon %d", 1+i%daemonCount) }

// begin makes the subscription and starts all that take part.
func (d *deliverDemo) begin(ctx context.Context) error {
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	d.subscription = true
	d.endpoint = admin.EndpointConfig{URL: "http://" + addr + "/orders", Timeout: 5 * time.Second}
	d.hire(Spec{Name: endpointName, Endpoint: addr, Forget: d.Forget})
	d.screen.scene("%d daemons deliver a subscription of 4 shards to an HTTP endpoint", daemonCount)
	if err := d.rf.EnsureTopic(ctx, d.topic, ringfence.TopicConfig{Partitions: 12}); err != nil {
		return err
	}
	if err := d.subscribe(ctx, 4); err != nil {
		return err
	}
	if err := d.startEndpoint(ctx); err != nil {
		return err
	}
	for i := range daemonCount {
		d.workers[daemon(i)] = &worker{run: d.Daemon}
		if err := d.start(daemon(i)); err != nil {
			return err
		}
	}
	d.screen.say("it fails every tenth attempt, and always record %d of %s: the poison", poisonNumber, customer(0))
	if err := d.round(ctx); err != nil {
		return err
	}
	if err := d.awaitGood(ctx, "the records of the good keys arrive"); err != nil {
		return err
	}
	d.screen.say("all records of the other %d keys arrived; those of %s wait behind the poison", customers-1, customer(0))
	return nil
}

// endpointDies kills the endpoint, produces, and starts it again.
func (d *deliverDemo) endpointDies(ctx context.Context) error {
	if err := d.kill(endpointName); err != nil {
		return err
	}
	if err := d.round(ctx); err != nil {
		return err
	}
	return d.startEndpoint(ctx)
}

// daemonDies kills the next daemon at work, and starts it again.
func (d *deliverDemo) daemonDies(context.Context) error {
	victim := daemon(d.victims)
	d.victims++
	return errors.Join(d.kill(victim), d.start(victim))
}

// daemonLeaves has the next daemon leave in order, and starts it again.
func (d *deliverDemo) daemonLeaves(context.Context) error {
	leaver := daemon(d.victims)
	d.victims++
	return errors.Join(d.dismiss([]string{leaver}), d.start(leaver))
}

func (d *deliverDemo) reshardTo(shards int) func(context.Context) error {
	return func(ctx context.Context) error { return d.reshard(ctx, shards) }
}

func (d *deliverDemo) growTo(partitions int) func(context.Context) error {
	return func(ctx context.Context) error { return d.grow(ctx, partitions) }
}

// deadLetters waits until the poison was given up.
func (d *deliverDemo) deadLetters(ctx context.Context) error {
	d.screen.scene("The dead letters: only the poison failed, and its key waits behind it")
	all := int(d.sequence[customer(0)]) - poisonNumber
	err := d.until(ctx, "the poison is given up", patience, func(ctx context.Context) (bool, int64, error) {
		err := d.readDeadLetters(ctx)
		left := all - int(d.dead()) - d.waiting
		return left <= 0, int64(left), err
	})
	if err != nil {
		return err
	}
	d.result.DeadLetters, d.result.Waiting = int(d.dead()), d.waiting
	d.screen.say("%d failed, %d wait", d.result.DeadLetters, d.result.Waiting)
	return nil
}

// redrive mends the endpoint and delivers what failed again.
func (d *deliverDemo) redrive(ctx context.Context) error {
	d.screen.scene("The endpoint is mended, the dead letters are redriven, and kill -9 a daemon")
	n, err := d.redriveAll(ctx, patience)
	if err = errors.Join(err, d.daemonDies(ctx)); err != nil {
		return err
	}
	d.result.Redriven = int(n)
	err = d.until(ctx, "the redriven record and all behind it arrive", patience, func(ctx context.Context) (bool, int64, error) {
		letters, err := d.rf.Admin().ListDeadLetters(ctx, d.group, nil)
		left := int64(len(letters)) + d.missing(0)
		return left == 0, left, err
	})
	if err != nil {
		return err
	}
	d.screen.say("%d record redriven; the %d behind it followed in order", n, d.result.Waiting)
	return d.until(ctx, "all shards but the last ones are retired", patience, func(ctx context.Context) (bool, int64, error) {
		s, err := d.rf.Admin().GetSubscription(ctx, d.group)
		if err != nil {
			return false, 0, err
		}
		left := int64(len(d.Grow) - s.Set().Storage)
		for _, set := range s.Sets {
			if set.ID != s.Set().ID && set.State != "retired" {
				left++
			}
		}
		return left == 0 && !s.Changing(), left, nil
	})
}

// round produces some records of each customer.
func (d *deliverDemo) round(ctx context.Context) error {
	return d.produce(ctx, eachRound*customers, customer)
}

// awaitGood waits until the records of all customers but the poisoned one arrived.
func (d *deliverDemo) awaitGood(ctx context.Context, what string) error {
	return d.until(ctx, what, patience, func(context.Context) (bool, int64, error) {
		left := d.missing(1)
		return left == 0, left, nil
	})
}

// missing counts the records, of the customers from one on, behind the last that arrived. Whether all before it
// arrived, the judge says: a lost record does not keep the story from its end.
func (d *deliverDemo) missing(from int) (left int64) {
	for i := from; i < customers; i++ {
		left += max(0, d.sequence[customer(i)]-int64(d.tally.last[customer(i)]))
	}
	return left
}

// startEndpoint returns when it answers.
func (d *deliverDemo) startEndpoint(ctx context.Context) error {
	if err := d.start(endpointName); err != nil {
		return err
	}
	transport := http.Transport{DisableKeepAlives: true}
	return d.until(ctx, "the endpoint answers", patience, func(ctx context.Context) (bool, int64, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.endpoint.URL, http.NoBody)
		if err != nil {
			return false, 0, err
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return false, 0, err // it does not listen yet
		}
		return true, 0, resp.Body.Close()
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
