package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
)

// run is one run.
type run struct {
	Config
	rf      *ringfence.Client
	workers map[string]*worker
	hurting map[*Fault]*harness.Process // what each fault that began was done to
	tally   *tally
	result  Result
	began   time.Time // of the load
	phase   string

	// Of a run with a subscription, once the producers are gone.
	sent   sent
	failed map[string][]int // dead letters, by key

	changing sync.WaitGroup // growths and retirements
	mu       sync.Mutex     // guards what they change of their faults
	busy     map[string]bool
}

// How long is waited for what takes moments on an idle machine.
const (
	gathering = 2 * time.Minute // until the consumers have all partitions
	standing  = time.Minute     // for the next step of a group that does not get on
	look      = 100 * time.Millisecond
)

// ErrBroken says that a promise was broken: the result says which.
var ErrBroken = errors.New("a promise was broken")

// Run does it all. The result is never nil, also when it ended early; the error is ErrBroken when a
// promise was broken, and something else when it could not be done to its end.
func Run(ctx context.Context, c Config) (*Result, error) {
	suffix := strings.ToLower(rand.Text()[:8])
	r := &run{Config: c, tally: newTally(c.Dir), hurting: make(map[*Fault]*harness.Process), busy: make(map[string]bool)}
	r.result = Result{
		Verdict: Unfinished, Seed: c.Seed, Subscription: c.Subscriptions, Topic: "verify-" + suffix, Group: "verify-" + suffix,
		Schedule: []*Fault{}, Faults: []Takeover{}, Promises: []Promise{}, Deaths: []string{}, Notes: []string{},
	}
	if err := c.Validate(); err != nil {
		return &r.result, err
	}
	r.result.Schedule = append(r.result.Schedule, c.schedule()...)
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return &r.result, fmt.Errorf("directory of the histories: %w", err)
	}
	var err error
	if r.rf, err = ringfence.Open(ctx, c.Client); err != nil {
		return &r.result, err
	}
	err = r.play(ctx)
	if !errors.Is(err, ErrBroken) && !r.result.Began {
		return &r.result, errors.Join(err, r.clear())
	}
	r.tellStorage()
	err = errors.Join(err, r.judge())
	if !c.Keep && !errors.Is(err, ErrBroken) {
		err = errors.Join(err, r.clear())
	} else {
		r.result.Kept = true
		err = errors.Join(err, r.rf.Close())
	}
	return &r.result, err
}

// play makes the topic, and lets everybody work until the time is up and all is processed. Whoever
// was started has ended when it returns.
func (r *run) play(ctx context.Context) (err error) {
	r.phase = "the consumers gather"
	if err := r.rf.EnsureTopic(ctx, r.result.Topic, r.topic()); err != nil {
		return err
	}
	if r.Subscriptions {
		if err := r.subscribe(ctx); err != nil {
			return err
		}
	}
	r.hire()
	defer func() {
		producers, consumers := r.dismiss(r.all(true)), r.dismiss(r.all(false))
		err = errors.Join(err, producers, consumers, r.tally.follow())
		r.result.Seconds = time.Since(r.began).Seconds()
	}()
	r.began = time.Now()
	for _, name := range r.all(false) {
		if err := r.start(name); err != nil {
			return err
		}
	}
	if err := r.until(ctx, "the consumers have all partitions", gathering, r.group(allOwned)); err != nil {
		return err
	}
	r.result.Began = true
	for _, name := range r.all(true) {
		if err := r.start(name); err != nil {
			return err
		}
	}
	if err := r.hurt(ctx); err != nil {
		return err
	}
	r.phase = "the rest is processed"
	if err := r.dismiss(r.all(true)); err != nil {
		return err
	}
	if r.Subscriptions {
		return r.deliverRest(ctx)
	}
	if err := r.drain(ctx); err != nil {
		return err
	}
	return r.retireRest(ctx)
}

// hurt follows the schedule until the time is up.
func (r *run) hurt(ctx context.Context) error {
	defer r.changing.Wait()
	r.phase, r.began, r.result.BeganAt = "load and faults", time.Now(), history.Now()
	next := moments(r.result.Schedule)
	over := time.NewTimer(r.For)
	defer over.Stop()
	ticker := time.NewTicker(look / 4)
	defer ticker.Stop()
	told := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over.C:
			return r.settle(ctx, next)
		case <-ticker.C:
		}
		var err error
		if next, err = r.perform(ctx, next); err != nil {
			return err
		}
		if time.Since(told) < time.Second/4 {
			continue
		}
		told = time.Now()
		if err := r.revive(); err != nil {
			return err
		}
		if err := r.tell(); err != nil {
			return err
		}
	}
}

// perform does what is due, and returns what is still to come.
func (r *run) perform(ctx context.Context, next []moment) ([]moment, error) {
	for len(next) > 0 && time.Since(r.began) >= next[0].at {
		m := next[0]
		next = next[1:]
		if !m.end {
			if err := r.begin(ctx, m.fault); err != nil {
				return nil, err
			}
			continue
		}
		done, err := r.end(m.fault)
		if err != nil {
			return nil, err
		}
		if !done { // it takes longer than planned; nothing that comes later depends on it
			m.at += look
			i := sort.Search(len(next), func(i int) bool { return next[i].at > m.at })
			next = slices.Insert(next, i, m)
		}
	}
	return next, nil
}

// settle ends the faults that should have ended by now.
func (r *run) settle(ctx context.Context, late []moment) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for _, m := range late {
		for done := !m.end; !done; {
			var err error
			if done, err = r.end(m.fault); err != nil {
				return err
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

func allOwned(g ringfence.GroupInfo) bool {
	for _, u := range g.Units {
		if !u.Alive {
			return false
		}
	}
	return len(g.Units) > 0
}

// drain waits until all that was acknowledged is processed. A group that does not get on for long,
// though its stores answer, is judged as it is: what it left is lost.
func (r *run) drain(ctx context.Context) error {
	return r.drained(r.until(ctx, "everything was processed", standing, r.group(func(g ringfence.GroupInfo) bool { return g.Lag == 0 })))
}

// drained notes how the wait for the rest ended.
func (r *run) drained(err error) error {
	stood := new(stoodStillError)
	if errors.As(err, &stood) && stood.last == nil {
		r.result.Notes = append(r.result.Notes, err.Error())
		err = nil
	}
	r.result.Complete = err == nil
	return err
}

// stoodStillError says that what was waited for did not come.
type stoodStillError struct {
	what string
	long time.Duration
	last error // of the last look; nil: the stores answered
}

func (e *stoodStillError) Error() string {
	text := fmt.Sprintf("waited %s without any progress until %s", e.long, e.what)
	if e.last != nil {
		text += ": " + e.last.Error()
	}
	return text
}

func (e *stoodStillError) Unwrap() error { return e.last }

// looking says whether what is waited for is there, and how much is left of it.
type looking func(context.Context) (done bool, left int64, err error)

// group looks whether something holds of the group.
func (r *run) group(holds func(ringfence.GroupInfo) bool) looking {
	return func(ctx context.Context) (bool, int64, error) {
		g, err := r.describe(ctx)
		return err == nil && holds(g), g.Lag, err
	}
}

// until looks until something is done, as long as there is progress.
func (r *run) until(ctx context.Context, what string, patience time.Duration, holds looking) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	var handled, lag int64
	last := &stoodStillError{what: what, long: patience}
	for moved := time.Now(); ; {
		done, left, err := holds(ctx)
		if err == nil && done {
			return nil
		}
		if last.last = err; errors.Is(err, ringfence.ErrNotFound) {
			last.last = nil // nobody has joined yet
		}
		if err := errors.Join(r.revive(), r.tell()); err != nil {
			return err
		}
		if handled != r.tally.handled || lag != left {
			handled, lag, moved = r.tally.handled, left, time.Now()
		}
		if time.Since(moved) > patience {
			return last
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *run) describe(ctx context.Context) (ringfence.GroupInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	group := r.result.Group
	if r.Subscriptions {
		d, err := r.rf.DescribeSubscription(ctx, group)
		if err != nil {
			return ringfence.GroupInfo{}, err
		}
		group = d.Group()
	}
	return r.rf.DescribeGroup(ctx, group)
}

// tell reads the histories and tells how far it got.
func (r *run) tell() error {
	if err := r.tally.follow(); err != nil || r.Progress == nil {
		return err
	}
	p := Progress{
		Phase: r.phase, Elapsed: time.Since(r.began), Of: r.For,
		Sent: r.tally.sent, Acked: r.tally.acked, Handled: r.tally.handled, Planned: len(r.result.Schedule),
	}
	r.mu.Lock()
	for _, f := range r.result.Schedule {
		if f.Done {
			p.Faults++
		}
		p.Worst = max(p.Worst, time.Duration(f.TakeoverMillis*float64(time.Millisecond)))
	}
	r.mu.Unlock()
	r.Progress(p)
	return nil
}
