package measure

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence/internal/fault"
)

// number is a flag that takes a whole number from least on.
type number struct {
	p     *int
	least int
}

func (n number) String() string {
	if n.p == nil { // a zero value, as pflag makes one
		return "0"
	}
	return strconv.Itoa(*n.p)
}

func (n number) Type() string { return "int" }

func (n number) Set(s string) (err error) {
	*n.p, err = parse(s, n.least)
	return err
}

// numbers is a flag that takes a list of whole numbers from 1 on.
type numbers struct{ p *[]int }

func (n numbers) String() string {
	if n.p == nil {
		return ""
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(*n.p), "[]"), " ", ",")
}

func (n numbers) Type() string { return "ints" }

func (n numbers) Set(s string) error {
	*n.p = nil
	for part := range strings.SplitSeq(s, ",") {
		one, err := parse(part, 1)
		if err != nil {
			return err
		}
		*n.p = append(*n.p, one)
	}
	return nil
}

func parse(s string, least int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < least {
		return 0, fmt.Errorf("expected a whole number, %d or more", least)
	}
	return n, nil
}

// numberVar declares a flag with its default.
func numberVar(fl *pflag.FlagSet, p *int, name string, value, least int, usage string) {
	*p = value
	fl.Var(number{p, least}, name, usage)
}

func numbersVar(fl *pflag.FlagSet, p *[]int, name string, value []int, usage string) {
	*p = value
	fl.Var(numbers{p}, name, usage)
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
