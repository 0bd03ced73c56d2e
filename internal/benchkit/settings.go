package benchkit

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence/internal/fault"
)

// settings declares what a measurement can be told: each is a flag, has a default, which stands for a
// field that is zero, and demands that are checked when all have their values.
type settings struct {
	*pflag.FlagSet
	common *Common
	checks []func()
	errs   []error
}

func newSettings(c *Common) *settings {
	s := &settings{FlagSet: pflag.NewFlagSet("bench", pflag.ContinueOnError), common: c}
	if c.Dir == "" {
		c.Dir = "."
	}
	s.StringVar(&c.Dir, "dir", c.Dir, "`directory` in which a temporary one is made")
	return s
}

// Flags adds the flags of a command. The function that it returns checks them.
func (b *Bench) Flags(fl *pflag.FlagSet) (check func() error) {
	s := newSettings(&b.Common)
	b.settings(s)
	fl.AddFlagSet(s.FlagSet)
	return s.check
}

// Least is the annotation of a flag that has the least number it takes.
const Least = "least"

// number declares a number. Who asks for 0 does not want the default.
func (s *settings) number(p *int, name string, value, least int, usage string) {
	if *p == 0 {
		*p = value
	}
	s.IntVar(p, name, *p, usage)
	s.Lookup(name).Annotations = map[string][]string{Least: {strconv.Itoa(least)}}
	s.also(func() { s.least(name, *p, least) })
}

// numbers declares a list of numbers from 1 on; an empty one that is not nil stays empty.
func (s *settings) numbers(p *[]int, name string, value []int, usage string) {
	if *p != nil {
		value = *p
	}
	s.IntSliceVar(p, name, value, usage)
	s.also(func() {
		for _, n := range *p {
			s.least(name, n, 1)
		}
	})
}

func (s *settings) least(name string, v, least int) {
	s.that(v != 0 || least == 0, "--%s 0: expected more than that", name)
	s.that(v == 0 || v >= least, "--%s is %d; expected %d or more", name, v, least)
}

// rounds and time declare what most measurements have.
func (s *settings) rounds(usage string) { s.number(&s.common.Rounds, "rounds", 5, 1, usage) }

func (s *settings) time(value time.Duration, usage string) {
	if s.common.For == 0 {
		s.common.For = value
	}
	s.DurationVar(&s.common.For, "for", s.common.For, usage)
	s.also(func() { s.that(s.common.For > 0, "--for %s: expected more than that", s.common.For) })
}

func (s *settings) turns() {
	s.rounds("rounds of each measurement, taken in turn")
	s.time(time.Second, "time of one measurement in one round")
}

// also checks something when all settings have their values.
func (s *settings) also(check func()) { s.checks = append(s.checks, check) }

// that demands something.
func (s *settings) that(ok bool, format string, args ...any) {
	if !ok {
		s.errs = append(s.errs, fmt.Errorf("bench: %s: %w", fmt.Sprintf(format, args...), fault.Invalid))
	}
}

// program demands that agents can be started.
func (s *settings) program(what string) {
	s.also(func() { s.that(len(s.common.Command) > 0, "%s needs a program to start", what) })
}

func (s *settings) check() error {
	for _, check := range s.checks {
		check()
	}
	return errors.Join(s.errs...)
}
