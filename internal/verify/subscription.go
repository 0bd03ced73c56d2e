package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
)

// A run with subscriptions: its shards change while other faults hit. At the end the good keys come through, the poison
// is given up and redriven, and what waits behind it follows. history.Arrivals judges what the handlers took.

// maxArrivals is how many records such a run may have: its judge has all of them in memory.
const maxArrivals = 10_000_000

// subscribe makes the subscription; 0: with the default number of shards.
func (c *crew) subscribe(ctx context.Context, shards int) error {
	_, err := c.rf.Admin().CreateSubscription(ctx, c.group, admin.SubscriptionConfig{
		Topic: c.topic, Shards: shards, Retry: admin.Retry{Initial: firstPause, Max: 10 * firstPause, Attempts: tries}, Hold: -1, Endpoint: c.endpoint,
	})
	return err
}

// reshard changes the number of shards, as soon as no other change is under way.
func (c *crew) reshard(ctx context.Context, shards int) error {
	for {
		_, err := c.rf.Admin().ReshardSubscription(ctx, c.group, shards, nil)
		if !errors.Is(err, ringfence.ErrConflict) {
			return err
		}
		if ended := pause(ctx, look); ended != nil {
			return errors.Join(err, ended)
		}
	}
}

// deliverRest waits until the good keys are taken, then redrives the poison, and waits for that and all behind it. Where
// nothing moves for long, though the stores answer, it goes on, and is judged as it is.
func (r *run) deliverRest(ctx context.Context) error {
	var err error
	if r.sent, err = readSent(r.dir); err != nil {
		return err
	}
	patience := standing
	for _, step := range []func(context.Context, time.Duration) error{r.restComes, r.redrive, r.allCome} {
		err := step(ctx, patience)
		stood := new(stoodStillError)
		switch {
		case errors.As(err, &stood) && stood.last == nil:
			r.notes = append(r.notes, err.Error())
			patience = stoodBefore
		case err != nil:
			return err
		}
	}
	r.result.Complete = true
	return nil
}

// stoodBefore is how long is waited where it stood still before.
const stoodBefore = standing / 6

// restComes waits for the good keys and the poison's dead letters, not for what waits behind any other dead letter.
func (r *run) restComes(ctx context.Context, patience time.Duration) error {
	r.phase = "the rest is delivered"
	next := time.Time{}
	return r.until(ctx, "the good keys were delivered and the poison was given up", patience, func(ctx context.Context) (_ bool, left int64, err error) {
		if began := time.Now(); began.After(next) {
			if err = r.readDeadLetters(ctx); err != nil {
				return false, 0, err
			}
			next = time.Now().Add(max(lookAtDead, 4*time.Since(began)))
		}
		for key, n := range r.sent.acked {
			switch given := len(r.failed[key]) > 0; {
			case given:
			case poisoned(key) && n > poisonNumber:
				left++
			default:
				left += int64(max(0, n-r.tally.last[key]))
			}
		}
		return left == 0, left, nil
	})
}

// lookAtDead is how often all dead letters are read at most: it may take the store seconds.
const lookAtDead = time.Second

func (r *run) allCome(ctx context.Context, patience time.Duration) error {
	r.phase = "what was redriven is delivered"
	return r.until(ctx, "everything was delivered", patience, func(context.Context) (_ bool, left int64, err error) {
		for key, n := range r.sent.acked {
			left += int64(max(0, n-r.tally.last[key])) // whether all before the last were taken, the judge says
		}
		return left == 0, left, nil
	})
}

// readDeadLetters reads the dead letters: those that failed, and how many wait behind them.
func (c *crew) readDeadLetters(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, changing)
	defer cancel()
	letters, err := c.rf.Admin().ListDeadLetters(ctx, c.group, nil)
	if err != nil {
		return err
	}
	c.failed, c.waiting = map[string][]int{}, 0
	for _, l := range letters {
		if l.Status == api.Failed {
			c.failed[l.KeyText()] = append(c.failed[l.KeyText()], int(sequenceOf([]byte(l.Value))-1))
		} else {
			c.waiting++
		}
	}
	return nil
}

// dead counts the dead letters that failed.
func (c *crew) dead() (n int64) {
	for _, numbers := range c.failed {
		n += int64(len(numbers))
	}
	return n
}

// redrive has the poison taken from now on, and the dead letters delivered again.
func (r *run) redrive(ctx context.Context, patience time.Duration) (err error) {
	r.phase = "the dead letters are redriven"
	r.result.Figures.DeadLetters = r.dead()
	r.result.Figures.Redriven, err = r.redriveAll(ctx, patience)
	return err
}

func (c *crew) redriveAll(ctx context.Context, patience time.Duration) (redriven int64, err error) {
	if err := os.WriteFile(filepath.Join(c.dir, mendedFile), nil, 0o600); err != nil {
		return 0, fmt.Errorf("directory of the histories: %w", err)
	}
	err = c.until(ctx, "the dead letters were redriven", patience, func(ctx context.Context) (bool, int64, error) {
		ctx, cancel := context.WithTimeout(ctx, changing)
		defer cancel()
		n, err := c.rf.Admin().RedriveDeadLetters(ctx, c.group, nil)
		redriven += int64(n)
		return err == nil, 0, err
	})
	return redriven, err
}

// sent is what the producers' histories say, by key.
type sent struct{ tried, acked map[string]int }

// readSent reads it. The number of a key's last record, from 1 on, is how many there are: one is under way at a time.
func readSent(dir string) (sent, error) {
	s := sent{map[string]int{}, map[string]int{}}
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	for i := 0; i < len(paths) && err == nil; i++ {
		err = harness.Read(paths[i], 0, func(e history.Event) {
			switch n := int(e.Sequence); e.Kind {
			case history.Sent:
				s.tried[e.Key] = max(s.tried[e.Key], n)
			case history.Produced:
				s.acked[e.Key] = max(s.acked[e.Key], n)
			}
		})
	}
	return s, err
}

// judgeArrivals gives what was taken to the judge.
func (c *crew) judgeArrivals(complete bool) (*history.Report, error) {
	s, err := readSent(c.dir)
	if err != nil {
		return nil, err
	}
	a := history.Arrivals{
		Sent: map[string]int{}, Unsure: map[string]int{}, Poison: map[string]int{},
		Failed: c.failed, Taken: c.tally.taken, Early: !complete,
	}
	var tried int64
	for key, n := range s.tried {
		a.Sent[key], a.Unsure[key] = s.acked[key], n-s.acked[key]
		if tried += int64(n); poisoned(key) {
			a.Poison[key] = poisonNumber
		}
	}
	report := a.Judge()
	report.Sent = tried
	return report, nil
}

// tellTurns tells the figures of the shard sets.
func (r *run) tellTurns(ctx context.Context) error {
	d, err := r.rf.Admin().GetSubscription(ctx, r.group)
	if err != nil {
		return err
	}
	for _, set := range d.Sets[1:] {
		r.result.Figures.Turns = max(r.result.Figures.Turns, int64(set.Set))
		r.result.Figures.PauseMillis = max(r.result.Figures.PauseMillis, set.PauseMS)
	}
	return nil
}
