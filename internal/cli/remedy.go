package cli

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/ringfence/ringfence/internal/fault"
)

// missing is how the packages below name what is not there.
var missing = regexp.MustCompile(`\b(topic|group|ring|subscription) "[^"]*": not found`)

// whereToLook adds to the error of a topic, group, ring or subscription that is not there what shows those that
// are.
func (a *app) whereToLook(err error) error {
	if !errors.Is(err, fault.NotFound) {
		return err
	}
	if what := missing.FindStringSubmatch(err.Error()); what != nil {
		return fmt.Errorf("%w; \"%s %s list\" shows those that are there", err, a.program(), what[1])
	}
	return err
}
