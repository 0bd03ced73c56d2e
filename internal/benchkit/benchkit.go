// Package benchkit measures Ringfence: the bodies of the bench commands.
//
// Each command measures Ringfence and, where there is one, a raw peer (the same bytes with bare system
// calls) in turn, several rounds of each. What the project promises stands in figures.go, and beside
// what was measured. All of it is scripts (measure.Script): check and must end one at what goes wrong.
package benchkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/measure"
)

func check(err error) { measure.Check(err) }

func must[T any](v T, err error) T { return measure.Must(v, err) }

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

// measurement is the settings of one of the commands, its fields, and what it does: measure is a script that enters
// what takes turns, plays the rounds, and says what it was about.
type measurement interface {
	measure(ctx context.Context, r *run)
}

// demanding is a measurement whose settings have to fit together.
type demanding interface {
	demands(s *settings)
}

// Bench is one command.
type Bench struct {
	Name, Short string
	Common
	measurement
	turns
	ofDirectory bool // it measures the log in a directory, on no other store
}

// turns say in words what the rounds of a measurement are and what one lasts, and how long that is by default. What
// has no words can't be set.
type turns struct {
	rounds, lasts string
	time          time.Duration
}

const taken = "rounds of each measurement, taken in turn"

// inTurn are those of most measurements.
var inTurn = turns{taken, "time of one measurement in one round", time.Second}

// Benches are all commands, with fresh settings.
func Benches() []*Bench {
	return []*Bench{
		{Name: "all", Short: "Every figure that the project promises, in one table", measurement: &all{}, turns: inTurn, ofDirectory: true},
		{Name: "produce", Short: "Appends a second against raw synced writes", measurement: &produce{}, turns: inTurn},
		{Name: "consume", Short: "Records read and handled a second", measurement: &consume{}, turns: inTurn},
		{Name: "latency", Short: "From produce to the handler in another process", measurement: &latency{}, turns: inTurn},
		{Name: "reopen", Short: "From kill -9 of the writer to the next acknowledged record", measurement: &reopen{}, turns: turns{rounds: "kills for each size of the log, taken in turn"}, ofDirectory: true},
		{Name: "failover", Short: "How long partitions stand still at kill -9 and at clean moves", measurement: &failover{}},
		{Name: "registry", Short: "Fenced checkpoints a second, and how soon others see a change", measurement: &checkpoints{}, turns: inTurn},
		{Name: "deliver", Short: "Deliveries of subscriptions, with failing records, to an endpoint, and what is parked", measurement: &deliver{}, turns: turns{rounds: taken}, ofDirectory: true},
		{Name: "reshard", Short: "How long a key of a subscription waits when its shards change", measurement: &reshards{}, turns: turns{"changes of the number of shards, and growths", "time before and after a change", 500 * time.Millisecond}},
		{Name: "outage", Short: "How soon an endpoint that was away is back at the full rate", measurement: &outages{}, turns: turns{"outages", "time before an outage", time.Second}},
		{Name: "assign", Short: "Time and moves of the default assignor", measurement: &assignors{}, turns: turns{rounds: taken}},
		{Name: "switch", Short: "How long producers stand still when a topic is switched", measurement: &switches{}, turns: turns{"switches", "time between two switches", time.Second}},
		{Name: "route", Short: "Time to find the partition of a key", measurement: &routes{}, turns: turns{taken, inTurn.lasts, 100 * time.Millisecond}},
		{Name: "ring", Short: "Lookups of a ring, keys that move, and how soon members see a change", measurement: &rings{}, turns: inTurn},
		{Name: "idle", Short: "What a group and a daemon cost that have nothing to do", measurement: &idle{}, turns: inTurn},
		{Name: "memory", Short: "Memory of a consumer and of an open log, as the backlog grows", measurement: &memory{}, turns: inTurn, ofDirectory: true},
	}
}

// run is one measurement under way.
type run struct {
	*Bench
	*measure.Script
	measure.Contest
	dir string
	res measure.Report
}

// Run measures.
func (b *Bench) Run(ctx context.Context) (*measure.Report, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	if b.Logf == nil {
		b.Logf = func(string, ...any) {}
	}
	b.apart()
	r := &run{Bench: b, res: measure.Report{Bench: b.Name}}
	r.Contest = measure.Contest{Promises: promised, Where: b.kind(), Rest: func() { measure.Rest(b.Dir) }, Logf: b.Logf}
	err := measure.Try(func(s *measure.Script) {
		r.Script, r.dir = s, b.folder()
		s.Later(func() error { _ = os.RemoveAll(r.dir); return nil }) // what is left is named after us
		b.measure(ctx, r)
	})
	if err != nil {
		return nil, err
	}
	return &r.res, nil
}

// check reports every fault of the settings.
func (b *Bench) check() error {
	s := newSettings(b)
	if b.ofDirectory && b.given() {
		s.errs = append(s.errs, fmt.Errorf("bench %s measures the log in a directory; expected no --log and no --registry: %w", b.Name, fault.Invalid))
	}
	return s.check()
}

func (b *Bench) folder() string {
	dir, err := os.MkdirTemp(b.Dir, "ringfence-bench-")
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("--dir %q: expected a directory on the disk to be measured: %w", b.Dir, fault.NotFound)
	}
	return must(dir, err)
}

// open opens the stores, the directory below the run's where none were named, and leaves nothing behind.
func (r *run) open(ctx context.Context, dir string, durability ringfence.Durability) *ringfence.Client {
	rf := r.Stores.open(ctx, r.Script, r.dir+dir, durability)
	r.Later(func() error { return r.clean(ctx, rf) })
	return rf
}

// start starts an agent; it ends with the run, or before.
func (r *run) start(ctx context.Context, job harness.Job) *harness.Child {
	if len(r.Command) == 0 {
		check(fmt.Errorf("bench %s: expected a program to start: %w", r.Name, fault.Invalid))
	}
	return must(harness.StartChild(ctx, r.Command, r.environ(), job))
}

// once starts an agent, hears one answer, and kills it.
func (r *run) once(ctx context.Context, job harness.Job, answer any) {
	a := r.start(ctx, job)
	defer a.End()
	check(a.Hear(answer))
}

// play plays the rounds.
func (r *run) play() {
	check(r.Contest.Run(r.Rounds))
	r.res.Rows = r.Contest.Rows()
}

// done says what the measurement was about, and ends it.
func (r *run) done(about string, args ...any) {
	r.res.About = fmt.Sprintf(about, args...) + r.about()
	r.res.Figures = append(r.res.Figures, r.Contest.Figures()...)
}

// Agent is the body of an agent on those stores: arg is its task, stdin tells it when to begin and
// to end.
func Agent(ctx context.Context, s Stores, arg string, stdin io.Reader, stdout io.Writer) error {
	at := site{at: s}
	return harness.RunJob(ctx, arg, stdin, stdout,
		&produceJob{site: at}, &memberJob{site: at}, &switchJob{site: at}, &reopenJob{}, &memoryJob{}, &daemonJob{site: at})
}

// site is where a job finds the stores of its measurement.
type site struct {
	Dir        string
	Durability ringfence.Durability
	at         Stores
}

// open opens them, and closes them with the script.
func (p *site) open(ctx context.Context, s *measure.Script) *ringfence.Client {
	return p.at.open(ctx, s, p.Dir, p.Durability)
}

// all runs every measurement whose figures the project promises, with the settings that the promises name.
type all struct {
	Records int `default:"2000000" usage:"records to consume; reopening takes 2.5, memory 5 times as many"`
	Kills   int `default:"100" usage:"consumer processes to kill"`
}

func (a *all) measure(ctx context.Context, r *run) {
	began := time.Now()
	for _, part := range []struct {
		name string
		measurement
	}{
		{"produce", &produce{}},
		{"produce, many partitions", &produce{InFlight: []int{256}, Partitions: []int{16, 64, 256}, Async: -1}},
		{"produce, several processes", &produce{InFlight: []int{4, 256}, Processes: 4}},
		{"produce, bandwidth", &produce{InFlight: []int{}, Size: 1024}},
		{"consume", &consume{Records: a.Records}},
		{"latency", &latency{}},
		{"reopen", &reopen{Records: a.Records / 2 * 5}},
		{"failover", &failover{Kills: a.Kills, Leaves: max(1, a.Kills/5)}},
		{"failover, parked", &failover{Kills: max(1, a.Kills/5), Leaves: -1, Parked: 10_000}},
		{"deliver", &deliver{Records: max(1, a.Records/2), Parked: max(1, a.Records/20)}},
		{"reshard", &reshards{}},
		{"outage", &outages{}},
		{"registry", &checkpoints{}},
		{"ring", &rings{}},
		{"route", &routes{}},
		{"assign", &assignors{}},
		{"switch", &switches{}},
		{"idle", &idle{}},
		{"memory", &memory{Records: a.Records * 5}},
	} {
		r.Logf("== %s", part.name)
		name, _, _ := strings.Cut(part.name, ",")
		b := &Bench{Name: name, Common: r.Common, measurement: part.measurement}
		b.Durability = ""
		res, err := b.Run(ctx)
		if err != nil {
			check(fmt.Errorf("bench %s: %w", part.name, err))
		}
		r.res.Results = append(r.res.Results, res)
		r.res.Figures = append(r.res.Figures, res.Figures...)
	}
	r.done("%s of %s each, in %s", measure.Many(r.Rounds, "round"), r.For, time.Since(began).Round(time.Second))
}
