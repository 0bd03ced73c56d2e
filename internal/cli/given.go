package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence/internal/fault"
)

// mayBeEmpty are the texts that mean something without a byte: the key of a record, a reason that there is none
// for, and no configuration file or namespace in the place of those of the environment. Any other flag that is given as nothing
// is a mistake, mostly a variable of a shell that is not set: taken for the default, --registry "$REGISTRY"
// would be another store, and --secret-file "$SECRET" deliveries without a signature.
var mayBeEmpty = []string{"config", "key", "namespace", "reason"}

// prepare completes the flags of cmd and tells all mistakes in them at once, with what is missing.
func (a *app) prepare(cmd *cobra.Command) error {
	bad := map[string]error{}
	if !cmd.Hidden { // that a process of ours starts, and tells all
		emptyFlags(cmd.Flags(), bad) // before somebody puts a default in the place of nothing
	}
	err := a.settle(cmd)
	if !needsStores(cmd) {
		return err
	}
	missingFlags(cmd.Flags(), bad) // the environment and the file may have them
	return errors.Join(append([]error{err}, untold(bad, []error{err})...)...)
}

// missingFlags notes the flags that are required and that nobody gave.
func missingFlags(fl *pflag.FlagSet, bad map[string]error) {
	fl.VisitAll(func(f *pflag.Flag) {
		if what, _ := pflag.UnquoteUsage(f); isRequired(f) && !f.Changed {
			bad[f.Name] = fmt.Errorf("--%s is missing: expected --%s %s: %w", f.Name, f.Name, what, fault.Invalid)
		}
	})
}

func isRequired(f *pflag.Flag) bool { return len(f.Annotations[cobra.BashCompOneRequiredFlag]) > 0 }

// emptyFlags notes the flags that were given as nothing.
func emptyFlags(fl *pflag.FlagSet, bad map[string]error) {
	fl.VisitAll(func(f *pflag.Flag) {
		what, _ := pflag.UnquoteUsage(f)
		switch {
		case !f.Changed || !isEmpty(f.Value) || slices.Contains(mayBeEmpty, f.Name):
		case isRequired(f):
			bad[f.Name] = fmt.Errorf("--%s is empty: expected a value (%s): %w", f.Name, what, fault.Invalid)
		default:
			bad[f.Name] = fmt.Errorf("--%s is empty: expected a value (%s), or no --%s at all: %w", f.Name, what, f.Name, fault.Invalid)
		}
	})
}

// isEmpty tells a text without a byte, or a list that has one.
func isEmpty(v pflag.Value) bool {
	switch v.Type() {
	case "string":
		return v.String() == ""
	case "stringSlice", "stringArray":
		list, ok := v.(pflag.SliceValue)
		return ok && (len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), ""))
	}
	return false
}
