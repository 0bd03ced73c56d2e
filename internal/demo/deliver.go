package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
)

// What is delivered, and the one record that the endpoint refuses until it is mended.
const (
	deliverTopic, deliverName = "orders", "billing"

	daemonCount    = 3
	deliverKeys    = 20
	eachRound      = 15 // records of a key
	deliverTries   = 8
	deliverPace    = 20 * time.Millisecond
	deliverMaxWait = time.Minute

	poisonNumber = 5
)

var poisonKey = keyOf(0) //nolint:gochecknoglobals // a constant that a function makes

func keyOf(i int) string { return "customer-" + strconv.Itoa(i) }

// DeliverConfig is what the demo of deliveries is told. Config tells the stores, in a namespace that nobody
// else uses, and the screen.
type DeliverConfig struct {
	Config
	// DaemonArgs and EndpointArgs make the command lines of the processes.
	DaemonArgs   func() []string
	EndpointArgs func(Endpoint) []string
	Forget       bool // see Endpoint
}

// DeliverResult is what came of it.
type DeliverResult struct {
	Seconds     float64  `json:"seconds"`
	Produced    int64    `json:"produced"`
	Delivered   int64    `json:"delivered"`
	Duplicated  int64    `json:"duplicated"`
	Lost        int64    `json:"lost"`
	Reordered   int64    `json:"reordered"`
	DeadLetters int      `json:"dead_letters"` // that failed
	Waiting     int      `json:"waiting"`      // behind them, of the same key
	Redriven    int      `json:"redriven"`
	Broken      []string `json:"broken"` // promises; empty: all were kept
}

// delivery is the stage of this story.
type delivery struct {
	*DeliverConfig
	rf       *ringfence.Client
	screen   screen
	endpoint Endpoint
	inbox    *harness.Process
	daemons  []*harness.Process
	all      []*harness.Process
	sent     int // of each key
	failed   map[string][]int
	result   DeliverResult
}

// Deliver tells the story of a subscription and judges it, as Run does that of a group.
func Deliver(ctx context.Context, c DeliverConfig) (_ *DeliverResult, err error) {
	rf, err := ringfence.Open(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	d := &delivery{DeliverConfig: &c, rf: rf, screen: screen{w: c.Out, control: c.Control, began: time.Now()}, failed: map[string][]int{}, result: DeliverResult{Broken: []string{}}}
	err = d.play(ctx)
	if err = errors.Join(err, d.clear()); err != nil {
		return &d.result, err
	}
	return &d.result, d.judge()
}

func (d *delivery) play(ctx context.Context) error {
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	d.endpoint = Endpoint{Addr: addr, Folder: d.Dir, Forget: d.Forget}
	for _, scene := range []func(context.Context) error{d.begin, d.outage, d.crash, d.reshard, d.letters, d.redrive} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the subscription and starts all who take part.
func (d *delivery) begin(ctx context.Context) error {
	d.screen.scene("%d daemons deliver a subscription of 4 shards to an HTTP endpoint", daemonCount)
	if err := d.rf.EnsureTopic(ctx, deliverTopic, ringfence.TopicConfig{Partitions: 12}); err != nil {
		return err
	}
	_, err := d.rf.EnsureSubscription(ctx, deliverName, ringfence.SubscriptionConfig{
		Topic: deliverTopic, Shards: 4, MaxAttempts: deliverTries, Initial: deliverPace, Max: 10 * deliverPace, Hold: -1,
		Endpoint: ringfence.SubscriptionEndpoint{URL: "http://" + d.endpoint.Addr + "/orders", Timeout: 5 * time.Second},
	})
	if err != nil {
		return err
	}
	if err := d.startEndpoint(ctx); err != nil {
		return err
	}
	for range daemonCount {
		if err := d.startDaemon(); err != nil {
			return err
		}
	}
	d.screen.say("it fails every tenth attempt, and always record %d of %s: the poison", poisonNumber, poisonKey)
	if err := d.produce(ctx); err != nil {
		return err
	}
	if err := d.await(ctx, "the records of the good keys arrive", d.goodCame); err != nil {
		return err
	}
	d.screen.say("all records of the other %d keys arrived; those of %s wait behind the poison", deliverKeys-1, poisonKey)
	return nil
}

// outage kills the endpoint, and has it come back.
func (d *delivery) outage(ctx context.Context) error {
	d.screen.scene("kill -9 the endpoint (pid %d), while records are produced, and start it again", d.inbox.PID())
	if err := errors.Join(d.inbox.Kill(), d.produce(ctx), d.startEndpoint(ctx)); err != nil {
		return err
	}
	if err := d.await(ctx, "the records of the outage arrive", d.goodCame); err != nil {
		return err
	}
	d.screen.say("what was produced meanwhile arrived, in order for each key")
	return nil
}

// crash kills a daemon at work.
func (d *delivery) crash(ctx context.Context) error {
	d.screen.scene("kill -9 a daemon (pid %d) at work", d.daemons[0].PID())
	if err := errors.Join(d.produce(ctx), d.daemons[0].Kill(), d.startDaemon()); err != nil {
		return err
	}
	if err := d.await(ctx, "the others deliver its shards", d.goodCame); err != nil {
		return err
	}
	d.screen.say("the others took over its shards, with what was parked there")
	return nil
}

// reshard changes the number of shards under load.
func (d *delivery) reshard(ctx context.Context) error {
	d.screen.scene("4 shards become 6 while records are delivered, and kill -9 the endpoint again")
	if err := d.produce(ctx); err != nil {
		return err
	}
	if _, err := d.rf.Reshard(ctx, deliverName, 6, nil); err != nil {
		return err
	}
	if err := errors.Join(d.inbox.Kill(), d.produce(ctx), d.startEndpoint(ctx), d.await(ctx, "all arrives through the new shards", d.goodCame)); err != nil {
		return err
	}
	d.screen.say("parked records and the order of each key moved to the new shards")
	return nil
}

// letters waits until the poison was given up.
func (d *delivery) letters(ctx context.Context) error {
	d.screen.scene("The dead letters: only the poison failed, and its key waits behind it")
	err := d.await(ctx, "the poison is given up", func(ctx context.Context) (bool, error) {
		letters, err := d.rf.DeadLetters(ctx, deliverName, nil)
		if err != nil || len(letters) < d.sent-poisonNumber {
			return false, err
		}
		d.failed = map[string][]int{}
		d.result.DeadLetters, d.result.Waiting = 0, 0
		for _, l := range letters {
			if !l.Failed {
				d.result.Waiting++
				continue
			}
			n, err := strconv.Atoi(string(l.Value))
			if err != nil {
				return false, fmt.Errorf("a dead letter is %q; expected a number", l.Value)
			}
			d.failed[string(l.Key)] = append(d.failed[string(l.Key)], n)
			d.result.DeadLetters++
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	d.screen.say("%d failed, %d wait", d.result.DeadLetters, d.result.Waiting)
	return nil
}

// redrive mends the endpoint and delivers what failed again.
func (d *delivery) redrive(ctx context.Context) error {
	d.screen.scene("The endpoint is mended, and the dead letters are redriven")
	if err := os.WriteFile(filepath.Join(d.Dir, mended), nil, 0o600); err != nil {
		return err
	}
	n, err := d.rf.Redrive(ctx, deliverName, nil)
	if err != nil {
		return err
	}
	d.result.Redriven = n
	err = d.await(ctx, "the redriven record and all behind it arrive", func(ctx context.Context) (bool, error) {
		letters, err := d.rf.DeadLetters(ctx, deliverName, nil)
		if err != nil || len(letters) > 0 {
			return false, err
		}
		return d.came(d.sent, func(string) bool { return true })
	})
	if err != nil {
		return err
	}
	d.screen.say("%d record redriven; the %d behind it followed in order", n, d.result.Waiting)
	return nil
}

func (d *delivery) produce(ctx context.Context) error {
	for range eachRound {
		for k := range deliverKeys {
			if _, err := d.rf.Produce(ctx, deliverTopic, ringfence.Message{Key: []byte(keyOf(k)), Value: fmt.Append(nil, d.sent)}); err != nil {
				return err
			}
		}
		d.sent++
	}
	return nil
}

func (d *delivery) goodCame(context.Context) (bool, error) {
	return d.came(d.sent, func(key string) bool { return key != poisonKey })
}

// came says whether the last of n records of each of those keys was taken. Whether all before it were, the
// judgement says: what is lost must not keep it from being told.
func (d *delivery) came(n int, of func(key string) bool) (bool, error) {
	taken, err := d.endpoint.taken()
	if err != nil {
		return false, err
	}
	last := map[string]int{}
	for _, a := range taken {
		last[a.Key] = max(last[a.Key], a.Number+1)
	}
	for k := range deliverKeys {
		if key := keyOf(k); of(key) && last[key] < n {
			return false, nil
		}
	}
	return true, nil
}

// judge reads what the endpoint wrote down.
func (d *delivery) judge() error {
	taken, err := d.endpoint.taken()
	if err != nil {
		return err
	}
	a := history.Arrivals{Sent: map[string]int{}, Poison: map[string]int{poisonKey: poisonNumber}, Failed: d.failed, Taken: taken}
	for k := range deliverKeys {
		a.Sent[keyOf(k)] = d.sent
	}
	report, r := a.Judge(), &d.result
	r.Seconds = time.Since(d.screen.began).Seconds()
	r.Produced, r.Delivered, r.Duplicated, r.Lost, r.Reordered = report.Produced, report.Delivered, report.Duplicated, report.Lost, report.Reordered
	for _, v := range report.Violations {
		r.Broken = append(r.Broken, v.String())
	}
	d.verdict(report)
	if len(r.Broken) > 0 {
		return fmt.Errorf("%d of them: %w", report.Violated, ErrBroken)
	}
	return nil
}

func (d *delivery) verdict(report *history.Report) {
	r := &d.result
	d.screen.scene("The judgement of what the endpoint wrote down before each answer")
	line := func(good bool, format string, args ...any) {
		mark := d.screen.paint("32", "ok  ")
		if !good {
			mark = d.screen.paint("31", "BAD ")
		}
		d.screen.say("%s %s", mark, fmt.Sprintf(format, args...))
	}
	line(r.Lost == 0, "%d records of %d keys produced, %d lost", r.Produced, deliverKeys, r.Lost)
	line(r.Reordered == 0, "%d first deliveries out of the order of their key", r.Reordered)
	line(report.Broken[history.OneDeadLetter] == 0, "%d dead letter for 1 poison record", r.DeadLetters)
	line(true, "%d delivered again after a crash, which at-least-once allows", r.Duplicated)
	for _, b := range r.Broken {
		d.screen.say("     %s", b)
	}
}

func (d *delivery) startDaemon() error {
	p, err := harness.Start(fmt.Sprintf("daemon %d", len(d.daemons)+1), d.Binary, d.DaemonArgs(), d.MemberEnv)
	if err != nil {
		return err
	}
	d.daemons, d.all = append(d.daemons, p), append(d.all, p)
	return nil
}

// startEndpoint returns when it answers.
func (d *delivery) startEndpoint(ctx context.Context) error {
	if d.inbox != nil {
		if err := d.inbox.Wait(); err != nil {
			return err
		}
	}
	p, err := harness.Start("endpoint", d.Binary, d.EndpointArgs(d.endpoint), d.MemberEnv)
	if err != nil {
		return err
	}
	d.inbox, d.all = p, append(d.all, p)
	transport := http.Transport{DisableKeepAlives: true}
	return d.await(ctx, "the endpoint answers", func(ctx context.Context) (bool, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.endpoint.Addr+"/", http.NoBody)
		if err != nil {
			return false, err
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return true, resp.Body.Close()
	})
}

func (d *delivery) await(ctx context.Context, what string, holds func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, deliverMaxWait)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		if ok, err := holds(ctx); ok || err != nil {
			return err
		}
		for _, p := range d.all {
			if p.Ended() && !p.WasKilled() {
				return fmt.Errorf("%s ended on its own:\n%s", p.Name, p.Tail())
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waited until %s: %w", what, context.Cause(ctx))
		}
	}
}

// clear ends all processes, and removes what was made in stores that stay.
func (d *delivery) clear() error {
	var errs []error
	for _, p := range d.all {
		if !p.Ended() {
			errs = append(errs, p.Kill())
		}
		errs = append(errs, p.Wait())
	}
	if !d.Fresh && !d.Keep {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, err := range []error{
			d.rf.DeleteSubscription(ctx, deliverName, &ringfence.DeleteSubscriptionOptions{Force: true}),
			d.rf.DeleteTopic(ctx, deliverTopic, &ringfence.DeleteTopicOptions{Force: true}),
		} {
			if !errors.Is(err, ringfence.ErrNotFound) { // it ended before they were made
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(append(errs, d.rf.Close())...)
}

// freeAddr is an address of this host that nobody listens on.
func freeAddr(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
