package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// printError tells an error on stderr, one line for each fault that was joined.
func (a *app) printError(err error) {
	lines := a.faults(err)
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, ": "+fault.Invalid.Error()) // the message says it better
		if fault.ExitCode(err) == fault.ExitTimeout {
			lines[i] = strings.TrimSuffix(lines[i], ": "+context.DeadlineExceeded.Error()) // so does "after 5s"
		}
	}
	switch {
	case len(lines) == 1:
		fmt.Fprintln(a.stderr, "ringfence: "+lines[0])
	case a.running && fault.ExitCode(err) != fault.ExitUsage:
		fmt.Fprintln(a.stderr, "ringfence: "+strings.Join(lines, "\n  "))
	default:
		fmt.Fprintf(a.stderr, "ringfence: %d mistakes:\n  - %s\n", len(lines), strings.Join(lines, "\n  - "))
	}
}

// faults are the lines of an error: one for each of those that errors.Join put together in it. A newline
// in anything else, such as a path or what a server said, makes no line: it is shown.
func (a *app) faults(err error) []string {
	text := err.Error()
	parts := inside(err)
	if joined(text, parts) {
		var lines []string
		for _, part := range parts {
			lines = append(lines, a.faults(part)...)
		}
		return lines
	}
	lines := []string{""}
	for _, part := range parts {
		before, behind, found := strings.Cut(text, part.Error())
		if !found || part.Error() == "" {
			continue
		}
		within := a.faults(part)
		lines[len(lines)-1] += a.shown(before) + within[0]
		lines = append(lines, within[1:]...)
		text = behind
	}
	lines[len(lines)-1] += a.shown(text)
	return lines
}

// shown is a piece of a message on one line, without the passwords of URLs that stand in it.
func (a *app) shown(text string) string { return a.stderr.Line(storeurl.RedactAll(text)) }

// inside are the errors that an error wraps.
func inside(err error) []error {
	switch e := err.(type) { //nolint:errorlint // one layer
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	case interface{ Unwrap() error }:
		if wrapped := e.Unwrap(); wrapped != nil {
			return []error{wrapped}
		}
	}
	return nil
}

// joined tells the text of errors.Join.
func joined(text string, parts []error) bool {
	if len(parts) == 0 {
		return false
	}
	for i, part := range parts {
		start := part.Error()
		if i > 0 {
			start = "\n" + start
		}
		rest, found := strings.CutPrefix(text, start)
		if !found {
			return false
		}
		text = rest
	}
	return text == ""
}

// missing is how the packages below name what is not there.
var missing = regexp.MustCompile(`\b(topic|group|ring|subscription) "[^"]*": not found`)

// unreached is how a log or a registry is named at whose address nothing answers.
var unreached = regexp.MustCompile(`\bopen (log|registry) (?s:.*)\b(?:connection refused|no such host|no route to host|network is unreachable|i/o timeout)\b`)

// whereToLook says what to do about a store that can't be reached, and adds to the error of a topic, group, ring or subscription that is not there what shows those that
// are.
func (a *app) whereToLook(err error) error {
	if away := unreached.FindStringSubmatch(fmt.Sprint(err)); away != nil {
		return fmt.Errorf("%w; start that server, or name another one with --%s", err, away[1])
	}
	if !errors.Is(err, fault.NotFound) {
		return err
	}
	if what := missing.FindStringSubmatch(err.Error()); what != nil {
		return fmt.Errorf("%w; \"%s %s list\" shows those that are there", err, a.program(), what[1])
	}
	return err
}
