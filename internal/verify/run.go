package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
)

// run is one run.
type run struct {
	Config
	*crew
	hurting map[*Fault]*harness.Process // what each fault that began was done to
	result  Result
	began   time.Time // of the load
	phase   string

	sent     sent           // of a run with a subscription, once the producers are gone
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
	name := "verify-" + strings.ToLower(rand.Text()[:8])
	r := &run{Config: c, hurting: make(map[*Fault]*harness.Process), busy: make(map[string]bool)}
	r.result = Result{
		Verdict: Unfinished, Seed: c.Seed, Subscription: c.Subscriptions, Topic: name, Group: name,
		Schedule: []*Fault{}, Faults: []Takeover{}, Promises: []Promise{}, Deaths: []string{}, Notes: []string{},
	}
	if err := c.Validate(); err != nil {
		return &r.result, err
	}
	r.result.Schedule = append(r.result.Schedule, c.schedule()...)
	var err error
	if r.crew, err = openCrew(ctx, &c.Site, name, name); err != nil {
		return &r.result, err
	}
	r.subscription, r.ended, r.looked = c.Subscriptions, r.count, r.progress
	defer func() { r.result.Notes = append(r.result.Notes, r.notes...) }()
	err = r.play(ctx)
	if !errors.Is(err, ErrBroken) && !r.result.Began {
		return &r.result, errors.Join(err, r.clear())
	}
	r.tellStorage()
	err = errors.Join(err, r.verdict())
	if !c.Keep && !errors.Is(err, ErrBroken) {
		err = errors.Join(err, r.clear())
	} else {
		r.result.Kept = true
		err = errors.Join(err, r.rf.Close())
	}
	return &r.result, err
}

// play makes the topic, and lets all workers work until the time is up and all is processed. All that
// it started has ended when it returns.
func (r *run) play(ctx context.Context) (err error) {
	r.phase = "the consumers gather"
	if err := r.rf.EnsureTopic(ctx, r.topic, r.topicConfig()); err != nil {
		return err
	}
	if r.Subscriptions {
		if err := r.subscribe(ctx, 0); err != nil {
			return err
		}
	}
	r.hireAll()
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
	if err := r.until(ctx, "the consumers have all partitions", gathering, r.of(allOwned)); err != nil {
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
			return r.finishFaults(ctx, next)
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
		if err := errors.Join(r.revive(), r.follow()); err != nil {
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

// finishFaults ends the faults that should have ended by now.
func (r *run) finishFaults(ctx context.Context, late []moment) error {
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

// drain waits until all that was acknowledged is processed. A group that does not get on for long,
// though its stores answer, is judged as it is: what it left is lost.
func (r *run) drain(ctx context.Context) error {
	return r.drained(r.until(ctx, "everything was processed", standing, r.of(caughtUp)))
}

// drained notes how the wait for the rest ended.
func (r *run) drained(err error) error {
	stood := new(stoodStillError)
	if errors.As(err, &stood) && stood.last == nil {
		r.notes = append(r.notes, err.Error())
		err = nil
	}
	r.result.Complete = err == nil
	return err
}

// progress tells how far it got.
func (r *run) progress() error {
	if r.Progress == nil {
		return nil
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
