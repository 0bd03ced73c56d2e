// Package benchkit measures Ringfence: the bodies of the bench commands.
//
// Machines drift, so no figure stands alone: each command measures Ringfence and a raw peer (the
// same bytes with bare system calls) in turn, several rounds of each, and reports medians and the
// median of the ratios of each round. What the project promises stands beside what was measured,
// as a Figure.
package benchkit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/fault"
)

// Common is what every command is told.
type Common struct {
	Dir    string        // where a temporary data directory is made; default "."
	Rounds int           // default 5
	For    time.Duration // of one round of one measurement; default 1 s
	Logf   func(format string, args ...any)
	Stores
	Command []string // starts this program as an agent: the program and the arguments before the agent's
}

func (c Common) withDefaults() Common {
	setDefault(&c.Dir, ".")
	setDefault(&c.Rounds, 5)
	setDefault(&c.For, time.Second)
	if c.Logf == nil {
		c.Logf = func(string, ...any) {}
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// tempDir makes a directory that remove takes away.
func (c *Common) tempDir() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(c.Dir, "ringfence-bench-")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("--dir %q: expected a directory on the disk to be measured: %w", c.Dir, fault.NotFound)
	}
	if err != nil {
		return "", nil, fmt.Errorf("a directory for the measurement: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // what is left is named after us
}

// rest brings the disk and the heap to rest, so that nobody pays for the turn before.
func (c *Common) rest() {
	runtime.GC()
	if d, err := os.Open(c.Dir); err == nil {
		_ = unix.Syncfs(int(d.Fd())) // a disk in trouble shows in the turn itself
		_ = d.Close()
	}
}

// figure is a number with three digits that matter, and separators.
func figure(v float64) string {
	switch {
	case v >= 1000:
		return thousands(int64(v + 0.5))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func thousands(n int64) string {
	s := ""
	for ; n >= 1000; n /= 1000 {
		s = fmt.Sprintf(",%03d", n%1000) + s
	}
	return fmt.Sprint(n) + s
}

// demand collects faults of a configuration.
type demand struct{ errs []error }

func (d *demand) that(ok bool, format string, args ...any) {
	if !ok {
		d.errs = append(d.errs, fmt.Errorf("bench: %s: %w", fmt.Sprintf(format, args...), fault.Invalid))
	}
}

func (d *demand) positive(name string, v int) { d.that(v > 0, "%s is %d; expected 1 or more", name, v) }

// many is a number of things: "1 round", "5 rounds", "3 processes".
func many(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "s"):
		thing += "es"
	default:
		thing += "s"
	}
	return thousands(int64(n)) + " " + thing
}
