package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/internal/script"
)

// run is one run.
type run struct {
	Config
	*crew
	result Result
	began  time.Time // of the load
	phase  string

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
	r := &run{Config: c, busy: make(map[string]bool)}
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
	var rest *history.Report // none of a run that was ended early
	if ctx.Err() == nil {
		var unread error
		rest, unread = r.readAll(ctx)
		err = errors.Join(err, unread)
	}
	err = errors.Join(err, r.verdict(rest))
	if !c.Keep && !errors.Is(err, ErrBroken) {
		err = errors.Join(err, r.clear())
	} else {
		r.result.Kept = true
		err = errors.Join(err, r.rf.Close())
	}
	return &r.result, err
}

// play makes the topic and lets all workers work until all is processed. All of them have ended when it returns.
func (r *run) play(ctx context.Context) error {
	return script.Try(func(s *script.Script) {
		r.phase = "the consumers gather"
		check(r.rf.EnsureTopic(ctx, r.topic, r.topicConfig()))
		if r.Subscriptions {
			check(r.subscribe(ctx, 0))
		}
		r.hireAll()
		s.Later(func() error {
			producers, consumers := r.dismiss(r.all(true)), r.dismiss(r.all(false))
			r.result.Seconds = time.Since(r.began).Seconds()
			return errors.Join(producers, consumers, r.tally.follow())
		})
		r.began = time.Now()
		r.startAll(false)
		check(r.until(ctx, "the consumers have all partitions", gathering, r.of(allOwned)))
		r.result.Began = true
		r.startAll(true)
		r.hurt(ctx)
		r.phase = "the rest is processed"
		check(r.dismiss(r.all(true)))
		if r.Subscriptions {
			check(r.deliverRest(ctx))
			return
		}
		check(r.drained(r.until(ctx, "everything was processed", standing, r.of(caughtUp))))
		check(r.retireRest(ctx))
	})
}

// readAll has what is stored read again.
func (r *run) readAll(ctx context.Context) (*history.Report, error) {
	r.phase = "all records are read again"
	return r.reread(ctx, r.has(Retire), r.progress)
}

// pause lets some time pass; the error says why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *run) startAll(producers bool) {
	for _, name := range r.all(producers) {
		check(r.start(name))
	}
}

// hurt follows the schedule until the time is up and what has begun is over.
func (r *run) hurt(ctx context.Context) {
	defer r.changing.Wait()
	r.phase, r.began, r.result.BeganAt = "load and faults", time.Now(), history.Now()
	told := time.Time{}
	for open := true; open || time.Since(r.began) < r.For; {
		check(pause(ctx, look/4))
		open = r.perform(ctx, time.Since(r.began))
		if time.Since(told) < time.Second/4 {
			continue
		}
		told = time.Now()
		check(errors.Join(r.revive(), r.follow()))
	}
}

// perform lets begin and end what is due, and says whether a process is hurt.
func (r *run) perform(ctx context.Context, elapsed time.Duration) (open bool) {
	for _, f := range r.result.Schedule {
		at := time.Duration(f.AtMillis) * time.Millisecond
		if !f.begun && at <= elapsed && elapsed < r.For {
			f.begun = true
			check(r.begin(ctx, f))
		}
		if f.hurts != nil && at+time.Duration(f.HoldMillis)*time.Millisecond <= elapsed {
			check(r.end(f))
		}
		open = open || f.hurts != nil
	}
	return open
}

// drained notes how the wait for the rest ended: what a group leaves that stands still is judged, and lost.
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
