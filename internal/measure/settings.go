package measure

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence/internal/fault"
)

// Bounds is the annotation of a flag that the command line bounds: the least and the most.
const Bounds = "bounds"

// numberVar declares a flag for a number from least on.
func numberVar(fl *pflag.FlagSet, p *int, name string, value, least int, usage string) {
	fl.IntVar(p, name, value, usage)
	_ = fl.SetAnnotation(name, Bounds, []string{strconv.Itoa(least), strconv.Itoa(math.MaxInt)}) // fails for an unknown flag only
}

// roundsVar declares --rounds, for measurements that take turns.
func (c *Common) roundsVar(fl *pflag.FlagSet) {
	numberVar(fl, &c.Rounds, "rounds", 5, 1, "rounds of each measurement, taken in turn")
}

// turnsVar declares --rounds and --for, for measurements whose turns last a while.
func (c *Common) turnsVar(fl *pflag.FlagSet) {
	c.roundsVar(fl)
	fl.DurationVar(&c.For, "for", time.Second, "time of one measurement in one round")
	c.timed = true
}

// Flags declares the flags of the command, with their defaults.
func (b *Bench) Flags(fl *pflag.FlagSet) {
	fl.StringVar(&b.Dir, "dir", ".", "`directory` in which a temporary one is made")
	b.flags(fl, &b.Common)
}

// Validate reports all settings that don't fit together.
func (b *Bench) Validate() error {
	var d demands
	d.that(b.For > 0 || !b.timed, "--for %s: expected more than that", b.For)
	d.that(!b.ofDirectory || !b.given(), "it measures the log in a directory; expected no --log and no --registry")
	if m, ok := b.measurement.(demanding); ok {
		m.demand(&d, &b.Common)
	}
	return d.met(b.Name)
}

// demands collects the settings that don't fit together.
type demands struct{ errs []error }

func (d *demands) that(ok bool, format string, args ...any) {
	if !ok {
		d.errs = append(d.errs, fmt.Errorf(format, args...))
	}
}

func (d *demands) met(name string) error {
	for i, err := range d.errs {
		d.errs[i] = fmt.Errorf("bench %s: %w: %w", name, err, fault.Invalid)
	}
	return errors.Join(d.errs...)
}
