package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/fault"
)

// ageless are times that may be longer than any other.
const ageless = "retention-age"

// badNumbers are, by flag, the numbers and times that no flag takes: what is less than nothing, unless that is
// the default, and a time of more than a year. It looks at what was given, before a command makes of it what it
// means.
func badNumbers(fl *pflag.FlagSet) map[string]error {
	bad := map[string]error{}
	fl.VisitAll(func(f *pflag.Flag) {
		if wrong := badNumber(f); f.Changed && wrong != "" {
			bad[f.Name] = fmt.Errorf("--%s %s%s: %w", f.Name, f.Value, wrong, fault.Invalid)
		}
	})
	return bad
}

// untold are those of bad, in order, that were not told already by somebody who knows more.
func untold(bad map[string]error, told []error) (errs []error) {
	var text string
	if err := errors.Join(told...); err != nil {
		text = "\n" + err.Error()
	}
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		if !strings.Contains(text, "--"+name+" ") && !strings.Contains(text, "\n"+name+" ") {
			errs = append(errs, bad[name])
		}
	}
	return errs
}

// badNumber says what is wrong about the value of a flag; "": nothing.
func badNumber(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		switch d, _ := time.ParseDuration(f.Value.String()); {
		case d < 0:
			return " is negative: expected 0s or more"
		case d > group.LongestTime && f.Name != ageless:
			return fmt.Sprintf(": expected at most %s, which is a year", group.LongestTime)
		}
	case "int", "int64":
		n, _ := strconv.ParseInt(f.Value.String(), 10, 64)
		least, _ := strconv.ParseInt(f.DefValue, 10, 64)
		switch least = min(0, least); {
		case n < least && least < 0:
			return fmt.Sprintf(": expected %d or more", least)
		case n < least:
			return " is negative: expected 0 or more"
		}
	}
	return ""
}
