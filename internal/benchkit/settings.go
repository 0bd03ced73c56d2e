package benchkit

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
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

func newSettings(b *Bench) *settings {
	s := &settings{FlagSet: pflag.NewFlagSet("bench", pflag.ContinueOnError), common: &b.Common}
	if b.Dir == "" {
		b.Dir = "."
	}
	s.StringVar(&b.Dir, "dir", b.Dir, "`directory` in which a temporary one is made")
	if b.rounds != "" {
		s.number(&b.Rounds, "rounds", 5, 1, b.rounds)
	}
	if b.lasts != "" {
		b.For = cmp.Or(b.For, b.time)
		s.DurationVar(&b.For, "for", b.For, b.lasts)
		s.also(func() { s.that(b.For > 0, "--for %s: expected more than that", b.For) })
	}
	s.of(b.measurement)
	if c, ok := b.measurement.(demanding); ok {
		s.also(func() { c.demands(s) })
	}
	return s
}

// Flags adds the flags of a command. The function that it returns checks them.
func (b *Bench) Flags(fl *pflag.FlagSet) (check func() error) {
	s := newSettings(b)
	fl.AddFlagSet(s.FlagSet)
	return s.check
}

// Least is the annotation of a flag that has the least number it takes.
const Least = "least"

var (
	words = regexp.MustCompile(`([a-z])([A-Z])`) // of the name of a field
	unit  = regexp.MustCompile(`<(\w+)>`)        // in a usage: what the number counts
)

// of declares the fields of a measurement by their tags: default, usage, and the least that they take, 1 where
// nothing is said.
func (s *settings) of(c any) {
	v := reflect.ValueOf(c).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		tag := func(key, otherwise string) string {
			if value, ok := f.Tag.Lookup(key); ok {
				return value
			}
			return otherwise
		}
		if !f.IsExported() {
			continue
		}
		name := strings.ToLower(words.ReplaceAllString(f.Name, "$1-$2"))
		usage := unit.ReplaceAllString(tag("usage", ""), "`$1`")
		var defaults []int
		for n := range strings.SplitSeq(tag("default", "0"), ",") {
			defaults = append(defaults, must(strconv.Atoi(n)))
		}
		switch p := v.FieldByIndex(f.Index).Addr().Interface().(type) {
		case *int:
			s.number(p, name, defaults[0], must(strconv.Atoi(tag("least", "1"))), usage)
		case *[]int:
			s.numbers(p, name, defaults, usage)
		case *time.Duration:
			s.DurationVar(p, name, 0, usage)
		}
	}
}

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

// also checks something when all settings have their values.
func (s *settings) also(check func()) { s.checks = append(s.checks, check) }

// that demands something.
func (s *settings) that(ok bool, format string, args ...any) {
	if !ok {
		s.errs = append(s.errs, fmt.Errorf("bench: %s: %w", fmt.Sprintf(format, args...), fault.Invalid))
	}
}

func (s *settings) check() error {
	for _, check := range s.checks {
		check()
	}
	return errors.Join(s.errs...)
}
