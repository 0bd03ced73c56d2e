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
	result DeliverResult
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
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	d.subscription = true
	d.endpoint = admin.EndpointConfig{URL: "http://" + addr + "/orders", Timeout: 5 * time.Second}
	d.hire(Spec{Name: endpointName, Endpoint: addr, Forget: d.Forget})
	for i := range daemonCount {
		d.workers[daemon(i)] = &worker{run: d.Daemon}
	}
	for _, scene := range []func(context.Context) error{d.begin, d.outage, d.crash, d.moreShards, d.deadLetters, d.redrive} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	return nil
}

func daemon(i int) string { return fmt.Sprintf("daemon %d", i+1) }

// begin makes the subscription and starts all that take part.
func (d *deliverDemo) begin(ctx context.Context) error {
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

// outage kills the endpoint, and has it come back.
func (d *deliverDemo) outage(ctx context.Context) error {
	d.screen.scene("kill -9 the endpoint (pid %d), while records are produced, and start it again", d.workers[endpointName].proc.PID())
	if err := d.endpointDies(ctx, "the records of the outage arrive"); err != nil {
		return err
	}
	d.screen.say("what was produced meanwhile arrived, in order for each key")
	return nil
}

// endpointDies kills the endpoint, produces, and starts it again.
func (d *deliverDemo) endpointDies(ctx context.Context, until string) error {
	if err := d.kill(endpointName); err != nil {
		return err
	}
	if err := d.round(ctx); err != nil {
		return err
	}
	if err := d.startEndpoint(ctx); err != nil {
		return err
	}
	return d.awaitGood(ctx, until)
}

// crash kills a daemon at work, and starts another one.
func (d *deliverDemo) crash(ctx context.Context) error {
	victim := daemon(0)
	d.screen.scene("kill -9 a daemon (pid %d) at work", d.workers[victim].proc.PID())
	if err := d.round(ctx); err != nil {
		return err
	}
	if err := d.kill(victim); err != nil {
		return err
	}
	if err := d.start(victim); err != nil {
		return err
	}
	if err := d.awaitGood(ctx, "the others deliver its shards"); err != nil {
		return err
	}
	d.screen.say("the others took over its shards, with what was parked there")
	return nil
}

// moreShards changes the number of shards under load.
func (d *deliverDemo) moreShards(ctx context.Context) error {
	d.screen.scene("4 shards become 6 while records are delivered, and kill -9 the endpoint again")
	if err := d.round(ctx); err != nil {
		return err
	}
	if err := d.reshard(ctx, 6); err != nil {
		return err
	}
	if err := d.endpointDies(ctx, "all arrives through the new shards"); err != nil {
		return err
	}
	d.screen.say("parked records and the order of each key moved to the new shards")
	return nil
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
	d.screen.scene("The endpoint is mended, and the dead letters are redriven")
	n, err := d.redriveAll(ctx, patience)
	if err != nil {
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
	return nil
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
