package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
)

// Site says where a crew works.
type Site struct {
	// Client says where records and coordination live. Dir is for the histories.
	Client ringfence.Config
	Dir    string
	Keep   bool // the topic and the group stay
	// Command makes the command line of a process, which calls Serve, and what is added to its environment.
	Command func(Spec) (binary string, args, env []string)
}

// crew is the processes of a run or of a demo, the topic that they work on, and what they wrote down.
type crew struct {
	dir     string
	command func(Spec) (binary string, args, env []string)
	rf      *ringfence.Client

	topic, group string
	subscription bool                 // the group is that of a subscription, which has its name
	endpoint     admin.EndpointConfig // of the subscription; none: the workers deliver it

	workers map[string]*worker
	tally   *tally
	failed  map[string][]int // dead letters of a subscription, by key
	waiting int              // records that wait behind them
	notes   []string         // what was out of the ordinary

	look   time.Duration // between two looks at what is waited for
	ended  func(p *harness.Process) error
	looked func() error // after each look; nil: nothing
}

// worker is a process through all of its starts.
type worker struct {
	spec Spec
	run  func() (binary string, args, env []string) // nil: the command of spec
	proc *harness.Process
	over bool // it is not started again
}

// lastWork is how long a process may take to leave.
const lastWork = 20 * time.Second

// openCrew opens the stores, and starts nothing.
func openCrew(ctx context.Context, s *Site, topic, group string) (*crew, error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("directory of the histories: %w", err)
	}
	rf, err := ringfence.Open(ctx, s.Client)
	if err != nil {
		return nil, err
	}
	return &crew{
		dir: s.Dir, command: s.Command, rf: rf, topic: topic, group: group, look: look,
		workers: make(map[string]*worker), tally: newTally(s.Dir), ended: endedEarly,
	}, nil
}

// endedEarly is the error of a process that ended unasked.
func endedEarly(p *harness.Process) error {
	return fmt.Errorf("%s ended early (exit code %d): %s", p.Name, p.ExitCode(), p.Tail())
}

// hire adds a worker with its task, and does not start it.
func (c *crew) hire(spec Spec) {
	spec.Topic, spec.Group, spec.History, spec.Parent = c.topic, c.group, c.dir, os.Getpid()
	c.workers[spec.Name] = &worker{spec: spec}
}

// names are those of the workers, in order.
func (c *crew) names() []string { return slices.Sorted(maps.Keys(c.workers)) }

// start starts a worker, for the first time or again.
func (c *crew) start(name string) error {
	w := c.workers[name]
	w.spec.Start++
	w.over = false
	run := w.run
	if run == nil {
		run = func() (string, []string, []string) { return c.command(w.spec) }
	}
	binary, args, env := run()
	p, err := harness.Start(name, binary, args, env)
	if err != nil {
		return err
	}
	w.proc = p
	return nil
}

// kill kills a worker with kill -9, and returns when it is gone.
func (c *crew) kill(name string) error {
	p := c.workers[name].proc
	if err := p.Kill(); err != nil {
		return err
	}
	<-p.Done()
	return nil
}

// revive starts the workers again that ended unasked. A killed or dismissed one is started by its killer.
func (c *crew) revive() error {
	for _, name := range c.names() {
		w := c.workers[name]
		if w.proc == nil || w.over || !w.proc.Ended() || w.proc.WasKilled() || w.proc.WasAsked() {
			continue
		}
		if err := errors.Join(c.ended(w.proc), c.start(name)); err != nil {
			return err
		}
	}
	return nil
}

// dismiss asks workers to leave and returns when they are gone. A worker that takes too long is killed.
func (c *crew) dismiss(names []string) error {
	for _, name := range names {
		w := c.workers[name]
		w.over = true
		if w.proc != nil {
			_ = w.proc.Thaw() // it may have ended
			_ = w.proc.Leave()
		}
	}
	patience := time.After(lastWork)
	for _, name := range names {
		w := c.workers[name]
		if w.proc == nil {
			continue
		}
		select {
		case <-w.proc.Done():
		case <-patience:
			_ = w.proc.Kill()
			c.notes = append(c.notes, fmt.Sprintf("%s did not leave within %s and was killed", name, lastWork))
			patience = time.After(0) // nor wait for the others
		}
		<-w.proc.Done()
		if err := c.farewell(w.proc); err != nil {
			return err
		}
	}
	return nil
}

// farewell judges how a process ended.
func (c *crew) farewell(p *harness.Process) error {
	switch {
	case p.WasKilled() || p.ExitCode() == 0 && p.WasAsked():
		return nil
	case p.WasAsked() && p.ExitCode() == -1 && len(p.Output()) == 0:
		return nil // it was asked before it listened
	}
	return c.ended(p)
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

// until looks until something is done, as long as there is progress.
func (c *crew) until(ctx context.Context, what string, patience time.Duration, holds looking) error {
	var handled, lag int64
	last := &stoodStillError{what: what, long: patience}
	for moved := time.Now(); ; {
		done, left, err := holds(ctx)
		if err == nil && done {
			return nil
		}
		if last.last = err; errors.Is(err, ringfence.ErrNotFound) {
			last.last = nil // no member has joined yet
		}
		if err := errors.Join(c.revive(), c.follow()); err != nil {
			return err
		}
		if handled != c.tally.handled || lag != left {
			handled, lag, moved = c.tally.handled, left, time.Now()
		}
		if time.Since(moved) > patience {
			return last
		}
		if err := pause(ctx, c.look); err != nil {
			return err
		}
	}
}

// follow reads what the processes wrote.
func (c *crew) follow() error {
	err := c.tally.follow()
	if err == nil && c.looked != nil {
		err = c.looked()
	}
	return err
}

// of looks whether something holds of the group.
func (c *crew) of(holds func(api.Group) bool) looking {
	return func(ctx context.Context) (bool, int64, error) {
		g, err := c.describe(ctx)
		return err == nil && holds(g), g.Lag, err
	}
}

func (c *crew) describe(ctx context.Context) (api.Group, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	group := c.group
	if c.subscription {
		d, err := c.rf.Admin().GetSubscription(ctx, group)
		if err != nil {
			return api.Group{}, err
		}
		group = d.Group()
	}
	return c.rf.Admin().DescribeGroup(ctx, group)
}

func allOwned(g api.Group) bool {
	for _, u := range g.Units {
		if !u.Alive {
			return false
		}
	}
	return len(g.Units) > 0
}

func caughtUp(g api.Group) bool { return g.Lag == 0 }

// judge has the judge read what was written down, and names its promises. complete: all could have been processed.
func (c *crew) judge(complete bool) (*history.Report, []history.Promise, error) {
	if c.subscription {
		report, err := c.judgeArrivals(complete)
		return report, history.ArrivalPromises(), err
	}
	paths, err := filepath.Glob(filepath.Join(c.dir, "*.jsonl"))
	if err != nil {
		return nil, nil, err
	}
	report, err := harness.Judge(history.Config{}, complete, paths...)
	return report, history.Promises(), err
}
