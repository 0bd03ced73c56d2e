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
	lines := strings.Split(err.Error(), "\n") // as errors.Join puts them together
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(a.shown(inGo.ReplaceAllString(l, "")), ": "+fault.Invalid.Error()) // the message says it better
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

// inGo is what a message says for a program in place of a command line.
var inGo = regexp.MustCompile(` \([A-Za-z.]+ in Go\)`)

// shown is a piece of a message on one line, without the passwords of URLs that stand in it.
func (a *app) shown(text string) string {
	return a.stderr.Line(storeurl.RedactAll(inGo.ReplaceAllString(text, "")))
}

// missing is how the packages below name what is not there.
var missing = regexp.MustCompile(`\b(topic|group|ring|subscription) "[^"]*": not found`)

// unreached is how a log or a registry is named at whose address nothing answers.
var unreached = regexp.MustCompile(`\bopen (log|registry) (?s:.*)\b(?:connection refused|no such host|no route to host|network is unreachable|i/o timeout)\b`)

// whereToLook adds to an error what to do about a store that can't be reached, or about a thing that is not there.
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
