package cli

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/ringfence/ringfence/internal/fault"
)

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
