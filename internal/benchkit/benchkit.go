// Package benchkit measures Ringfence: the bodies of the bench commands.
//
// Each command measures Ringfence and, where there is one, a raw peer (the same bytes with bare system
// calls) in turn, several rounds of each. What the project promises stands in figures.go, and beside
// what was measured.
package benchkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/measure"
)

// Common is what every measurement is told.
type Common struct {
	Dir        string        // where a temporary data directory is made
	Rounds     int           // of each measurement
	For        time.Duration // of one round of one measurement
	Durability ringfence.Durability
	Logf       func(format string, args ...any) // nil: nothing
	Stores
	Command []string // starts this program as an agent: the program and the arguments before the agent's
}

// measurement is the settings of one of the commands, and what it does.
type measurement interface {
	settings(s *settings)
	// measure enters what takes turns, plays the rounds, and says what it was about.
	measure(ctx context.Context, r *run) error
}

// Bench is one command.
type Bench struct {
	Name, Short string
	Common
	measurement
	ofDirectory bool // it measures the log in a directory, on no other store
}

// Benches are all commands, with fresh settings.
func Benches() []*Bench {
	return []*Bench{
		{Name: "all", Short: "Every figure that the project promises, in one table", measurement: &all{}, ofDirectory: true},
		{Name: "produce", Short: "Appends a second against raw synced writes", measurement: &produce{}},
		{Name: "consume", Short: "Records read and handled a second", measurement: &consume{}},
		{Name: "latency", Short: "From produce to the handler in another process", measurement: &latency{}},
		{Name: "reopen", Short: "From kill -9 of the writer to the next acknowledged record", measurement: &reopen{}, ofDirectory: true},
		{Name: "failover", Short: "How long partitions stand still at kill -9 and at clean moves", measurement: &failover{}},
		{Name: "registry", Short: "Fenced checkpoints a second, and how soon others see a change", measurement: &checkpoints{}},
		{Name: "deliver", Short: "Deliveries of subscriptions, with failing records, to an endpoint, and what is parked", measurement: &deliver{}, ofDirectory: true},
		{Name: "reshard", Short: "How long a key of a subscription waits when its shards change", measurement: &reshards{}},
		{Name: "outage", Short: "How soon an endpoint that was away is back at the full rate", measurement: &outages{}},
		{Name: "assign", Short: "Time and moves of the default assignor", measurement: &assignors{}},
		{Name: "switch", Short: "How long producers stand still when a topic is switched", measurement: &switches{}},
		{Name: "route", Short: "Time to find the partition of a key", measurement: &routes{}},
		{Name: "ring", Short: "Lookups of a ring, keys that move, and how soon members see a change", measurement: &rings{}},
		{Name: "idle", Short: "What a group and a daemon cost that have nothing to do", measurement: &idle{}},
		{Name: "memory", Short: "Memory of a consumer and of an open log, as the backlog grows", measurement: &memory{}, ofDirectory: true},
	}
}

// run is one measurement under way.
type run struct {
	*Bench
	dir string
	measure.Contest
	res  measure.Report
	undo []func() error
}

// Run measures.
func (b *Bench) Run(ctx context.Context) (_ *measure.Report, err error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	if b.Logf == nil {
		b.Logf = func(string, ...any) {}
	}
	b.apart()
	r := &run{Bench: b, res: measure.Report{Bench: b.Name}}
	r.Contest = measure.Contest{Promises: promised, Where: b.kind(), Rest: func() { measure.Rest(b.Dir) }, Logf: b.Logf}
	if r.dir, err = os.MkdirTemp(b.Dir, "ringfence-bench-"); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--dir %q: expected a directory on the disk to be measured: %w", b.Dir, fault.NotFound)
	} else if err != nil {
		return nil, fmt.Errorf("a directory for the measurement: %w", err)
	}
	r.later(func() error { _ = os.RemoveAll(r.dir); return nil }) // what is left is named after us
	defer func() {
		for _, f := range slices.Backward(r.undo) {
			err = errors.Join(err, f())
		}
	}()
	if err := b.measure(ctx, r); err != nil {
		return nil, err
	}
	return &r.res, nil
}

// check reports every fault of the settings.
func (b *Bench) check() error {
	s := newSettings(&b.Common)
	b.settings(s)
	if b.ofDirectory && b.given() {
		s.errs = append(s.errs, fmt.Errorf("bench %s measures the log in a directory; expected no --log and no --registry: %w", b.Name, fault.Invalid))
	}
	return s.check()
}

// later undoes something when the run is over; the last comes first.
func (r *run) later(undo func() error) { r.undo = append(r.undo, undo) }

// open opens the stores, the directory below the run's where none were named, and leaves nothing behind.
func (r *run) open(ctx context.Context, dir string, durability ringfence.Durability) (*ringfence.Client, error) {
	rf, err := r.Stores.open(ctx, r.dir+dir, durability)
	if err == nil {
		r.later(func() error { return errors.Join(r.clean(ctx, rf), rf.Close()) })
	}
	return rf, err
}

// start starts an agent; it ends with the run, or before.
func (r *run) start(ctx context.Context, job harness.Job) (*harness.Child, error) {
	return harness.StartChild(ctx, r.Command, r.environ(), job)
}

// once starts an agent, hears one answer, and kills it.
func (r *run) once(ctx context.Context, job harness.Job, answer any) error {
	a, err := r.start(ctx, job)
	if err != nil {
		return err
	}
	defer a.End()
	return a.Hear(answer)
}

// play plays the rounds.
func (r *run) play() error {
	if err := r.Contest.Run(r.Rounds); err != nil {
		return err
	}
	r.res.Rows = r.Contest.Rows()
	return nil
}

// done says what the measurement was about, and ends it.
func (r *run) done(about string, args ...any) error {
	r.res.About = fmt.Sprintf(about, args...) + r.about()
	r.res.Figures = append(r.res.Figures, r.Contest.Figures()...)
	return nil
}

// Agent is the body of an agent on those stores: arg is its task, stdin tells it when to begin and
// to end.
func Agent(ctx context.Context, s Stores, arg string, stdin io.Reader, stdout io.Writer) error {
	return harness.RunJob(ctx, arg, stdin, stdout, &produceJob{at: s}, &memberJob{at: s}, &switchJob{at: s}, &reopenJob{}, &memoryJob{}, &daemonJob{at: s})
}
