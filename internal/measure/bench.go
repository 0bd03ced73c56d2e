package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/script"
)

// Common is the settings of every measurement.
type Common struct {
	Dir        string        // where a temporary data directory is made
	Rounds     int           // of each measurement
	For        time.Duration // of one round of one measurement
	Durability ringfence.Durability
	Logf       func(format string, args ...any) // nil: nothing
	Stores
	timed   bool     // its turns last for For
	Command []string // starts this program as an agent: the program and the arguments before the agent's
}

// measurement is the settings of one command and its script, which enters what takes turns and plays the rounds.
type measurement interface {
	flags(fl *pflag.FlagSet, c *Common)
	measure(ctx context.Context, r *run)
}

// demanding is a measurement whose settings have to fit together.
type demanding interface {
	demand(d *demands, c *Common)
}

// Bench is one command.
type Bench struct {
	Name, Short string
	Common
	measurement
	ofDirectory bool // it measures the log in a directory, on no other store
}

// Benches are all commands.
func Benches() []*Bench {
	return []*Bench{
		{Name: "all", Short: "Every figure that the project promises, in one table", measurement: &all{}, ofDirectory: true},
		{Name: "produce", Short: "Appends a second against raw synced writes", measurement: &produce{}},
		{Name: "consume", Short: "Records read and handled a second", measurement: &consume{}},
		{Name: "latency", Short: "From produce to the handler in another process", measurement: &latency{}},
		{Name: "failover", Short: "How long partitions stand still at kill -9 and at clean moves", measurement: &failover{}},
		{Name: "registry", Short: "Fenced checkpoints a second", measurement: &checkpoints{}},
		{Name: "deliver", Short: "Deliveries of subscriptions, with failing records and to an endpoint", measurement: &deliver{}, ofDirectory: true},
		{Name: "assign", Short: "Time and moves of the default assignor", measurement: &assignors{}},
		{Name: "idle", Short: "What a group and a daemon cost that have nothing to do", measurement: &idle{}},
	}
}

// run is one measurement under way.
type run struct {
	*Bench
	*script.Script
	Contest
	dir string
	res Report
}

// Run measures.
func (b *Bench) Run(ctx context.Context) (*Report, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	if b.Logf == nil {
		b.Logf = func(string, ...any) {}
	}
	b.apart()
	r := &run{Bench: b, res: Report{Bench: b.Name}}
	r.Contest = Contest{Promises: promised, Where: b.kind(), Rest: func() { Rest(b.Dir) }, Logf: b.Logf}
	err := script.Try(func(s *script.Script) {
		r.Script, r.dir = s, b.folder()
		s.Later(func() error { _ = os.RemoveAll(r.dir); return nil }) // what is left is named after us
		b.measure(ctx, r)
	})
	if err != nil {
		return nil, err
	}
	return &r.res, nil
}

func (b *Bench) folder() string {
	dir, err := os.MkdirTemp(b.Dir, "ringfence-bench-")
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("--dir %q: expected a directory on the disk to be measured: %w", b.Dir, fault.NotFound)
	}
	return script.Must(dir, err)
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
		script.Check(fmt.Errorf("bench %s: expected a program to start: %w", r.Name, fault.Invalid))
	}
	return script.Must(harness.StartChild(ctx, r.Command, r.environ(), job))
}

// play plays the rounds.
func (r *run) play() {
	script.Check(r.Contest.Run(r.Rounds))
	r.res.Rows = r.Contest.Rows()
}

// done says what the measurement was about, and ends it.
func (r *run) done(about string, args ...any) {
	r.res.About = fmt.Sprintf(about, args...) + r.about()
	r.res.Figures = append(r.res.Figures, r.Contest.Figures()...)
}

// Agent is the body of an agent on those stores: arg is its task, stdin tells it when to begin and to end.
func Agent(ctx context.Context, s Stores, arg string, stdin io.Reader, stdout io.Writer) error {
	at := site{at: s}
	return harness.RunJob(ctx, arg, stdin, stdout,
		&produceJob{site: at}, &memberJob{site: at}, &daemonJob{site: at})
}

// site is where a job finds the stores of its measurement.
type site struct {
	Dir        string
	Durability ringfence.Durability
	at         Stores
}

// open opens them, and closes them with the script.
func (p *site) open(ctx context.Context, s *script.Script) *ringfence.Client {
	return p.at.open(ctx, s, p.Dir, p.Durability)
}

// all runs every measurement whose figures the project promises, with the settings that the promises name.
type all struct{ Records, Kills int }

func (a *all) flags(fl *pflag.FlagSet, c *Common) {
	c.turnsVar(fl)
	numberVar(fl, &a.Records, "records", 2_000_000, 1, "records to consume")
	numberVar(fl, &a.Kills, "kills", 100, 1, "consumer processes to kill")
}

func (a *all) measure(ctx context.Context, r *run) {
	began := time.Now()
	for _, part := range []struct {
		name string
		args []string
	}{
		{"produce", nil},
		{"produce", []string{"--in-flight=256", "--partitions=64", "--async=0"}},
		{"produce", []string{"--in-flight=256", "--processes=4"}},
		{"produce", []string{"--in-flight=256", "--size=1024"}},
		{"consume", []string{fmt.Sprint("--records=", a.Records)}},
		{"latency", nil},
		{"failover", []string{fmt.Sprint("--kills=", a.Kills), fmt.Sprint("--leaves=", max(1, a.Kills/5))}},
		{"registry", nil},
		{"deliver", []string{fmt.Sprint("--records=", max(8, a.Records/2))}},
		{"assign", nil},
		{"idle", nil},
	} {
		r.Logf("== %s %s", part.name, strings.Join(part.args, " "))
		res, err := r.part(part.name, part.args).Run(ctx)
		if err != nil {
			script.Check(fmt.Errorf("bench %s: %w", part.name, err))
		}
		r.res.Results = append(r.res.Results, res)
		r.res.Figures = append(r.res.Figures, res.Figures...)
	}
	r.done("%s of %s each, in %s", Many(r.Rounds, "round"), r.For, time.Since(began).Round(time.Second))
}

// part is another command with these arguments, and with what this one was told of the machine.
func (r *run) part(name string, args []string) *Bench {
	b := Named(name)
	fl := pflag.NewFlagSet(name, pflag.ContinueOnError)
	b.Flags(fl)
	script.Check(fl.Parse(args))
	b.Common = r.Common
	return b
}

// Named is the command of a name; nil: there is none.
func Named(name string) *Bench {
	for _, b := range Benches() {
		if b.Name == name {
			return b
		}
	}
	return nil
}
