package cli

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
)

// mayBeEmpty are the texts that mean something without a byte. Elsewhere an empty one is a shell's unset variable.
var mayBeEmpty = []string{"config", "key", "namespace", "reason"}

// ageless is the flag whose time may be longer than a year.
const ageless = "retention-age"

// bounded bounds the values of flags that are given; a default need not be within.
func bounded[N int | time.Duration](fl *pflag.FlagSet, least, most N, names ...string) {
	for _, name := range names {
		_ = fl.SetAnnotation(name, measure.Bounds, []string{fmt.Sprint(int64(least)), fmt.Sprint(int64(most))}) // fails for an unknown flag only
	}
}

// sessionFlag is how long a silent member lives.
func sessionFlag(fl *pflag.FlagSet, ttl *time.Duration) {
	fl.DurationVar(ttl, "session-ttl", 0, "after this time a silent member is dead; a killed one is noticed earlier (default 5s; 2s on etcd)")
	bounded(fl, registry.MinSessionTTL, registry.MaxSessionTTL, "session-ttl")
}

// checked is a check of flags that have their final values, as a step before the command runs.
func checked(check func() error) func(*cobra.Command, []string) error {
	return func(*cobra.Command, []string) error { return check() }
}

// checkValues refuses empty values, and numbers and times out of bounds: from 0, or a lower default, and for times to a year.
func checkValues(fl *pflag.FlagSet) (errs []error) {
	fl.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		kind, found, expected := f.Value.Type(), f.Value.String(), ""
		switch {
		case strings.HasPrefix(kind, "string"):
			if what, _ := pflag.UnquoteUsage(f); isEmpty(f.Value) && !slices.Contains(mayBeEmpty, f.Name) {
				found, expected = "is empty", fmt.Sprintf("a value (%s), or no --%s at all", what, f.Name)
			}
		case kind == "duration":
			d, _ := time.ParseDuration(found)
			least, most := int64(0), int64(group.LongestTime)
			if f.Name == ageless {
				most = math.MaxInt64
			}
			expected = outside(f, int64(d), least, most, func(n int64) string { return time.Duration(n).String() })
		case kind == "int", kind == "int64":
			n, _ := strconv.ParseInt(found, 10, 64)
			least, _ := strconv.ParseInt(f.DefValue, 10, 64)
			expected = outside(f, n, min(0, least), math.MaxInt64, func(n int64) string { return fmt.Sprint(n) })
		}
		if expected != "" {
			errs = append(errs, fmt.Errorf("--%s %s: expected %s: %w", f.Name, found, expected, fault.Invalid))
		}
	})
	return errs
}

// outside says what was expected of a number out of its bounds; "": it is within.
func outside(f *pflag.Flag, n, least, most int64, text func(int64) string) string {
	own := f.Annotations[measure.Bounds]
	if own != nil {
		least, _ = strconv.ParseInt(own[0], 10, 64)
		most, _ = strconv.ParseInt(own[1], 10, 64)
	}
	switch {
	case n >= least && n <= most:
		return ""
	case most == math.MaxInt64, own == nil && n < least:
		return text(least) + " or more"
	}
	return text(least) + " to " + text(most)
}

// oneOf refuses a value that is none of the words.
func oneOf(flag, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	last := len(words) - 1
	return fmt.Errorf("--%s %s: expected \"%s\" or %q: %w", flag, storeurl.Quote(value), strings.Join(words[:last], `", "`), words[last], fault.Invalid)
}

// isEmpty tells a text without a byte, or a list that has one.
func isEmpty(v pflag.Value) bool {
	if list, ok := v.(pflag.SliceValue); ok {
		return len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
	}
	return v.String() == ""
}

// noFlag says what does what a flag is expected to do that a command does not have.
func noFlag(cmd *cobra.Command, flag, instead string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations["no "+flag] = instead
}

// flagError turns a refusal of pflag into a usage error that names the flag that was meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bad *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && cmd.HasSubCommands() && cmd.Flags().Arg(0) != "":
		return unknownCommand(cmd, cmd.Flags().Arg(0)) // its flags are not those of cmd
	case errors.As(err, &unknown) && cmd.Annotations["no "+unknown.GetSpecifiedName()] != "":
		return fmt.Errorf("unknown flag --%s; %s: %w", unknown.GetSpecifiedName(), cmd.Annotations["no "+unknown.GetSpecifiedName()], fault.Invalid)
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		if near := nearest("--"+unknown.GetSpecifiedName(), names); near != "" {
			return fmt.Errorf("unknown flag --%s; did you mean %s?: %w", unknown.GetSpecifiedName(), near, fault.Invalid)
		}
		return fmt.Errorf("%w; see %q: %w", err, cmd.CommandPath()+" --help", fault.Invalid)
	case errors.As(err, &bad):
		return fmt.Errorf("%w: %w", plainFlagError(err), fault.Invalid)
	}
	return fmt.Errorf("%w: %w", err, fault.Invalid)
}

// missingFlags says which flags a command needs, and which of its flags exclude each other.
func missingFlags(cmd *cobra.Command) error {
	var errs []error
	for _, err := range []error{cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()} {
		if err != nil {
			errs = append(errs, fmt.Errorf("%w; see %q: %w", err, cmd.CommandPath()+" --help", fault.Invalid))
		}
	}
	return errors.Join(errs...)
}

// plainFlagError says what a flag expected in the place of what strconv says to programmers.
func plainFlagError(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	expected := errors.Unwrap(bad).Error()
	switch kind := bad.GetFlag().Value.Type(); {
	case errors.Is(err, strconv.ErrRange):
		expected = "expected a smaller number"
	case strings.HasPrefix(expected, "expected"): // a value of ours
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		expected = "expected a number"
	case kind == "float64":
		expected = "expected a number such as 0.5"
	case kind == "duration":
		expected = "expected a time such as 500ms, 2s or 1h"
	case kind == "bool":
		expected = "expected true or false"
	}
	return fmt.Errorf("--%s %s: %s", bad.GetFlag().Name, storeurl.Quote(bad.GetValue()), expected)
}

// completeWith offers the values of a flag to the shell; the flag must be there already.
func completeWith(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails for an unknown flag only
}

// wrapUsage makes the refusals of argument checks usage errors that show how it goes. A command without a check takes
// the arguments that its usage names in capitals.
func (a *app) wrapUsage(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		a.wrapUsage(c)
	}
	check := cmd.Args
	if check == nil {
		n := 0
		for words := strings.Fields(cmd.Use)[1:]; n < len(words) && words[n][0] >= 'A' && words[n][0] <= 'Z'; {
			n++
		}
		check = cobra.ExactArgs(n)
	}
	cmd.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err == nil || errors.Is(err, fault.Invalid) {
			return err
		}
		return fmt.Errorf("found %s; expected: %s: %w", plural(int64(len(args)), "argument"), strings.TrimSuffix(c.UseLine(), " [flags]"), fault.Invalid)
	}
}

// nearest are the words of a list that word may have been meant to be; "" when none is near.
func nearest(word string, list []string) string {
	var near cobra.Command
	for _, w := range list {
		near.AddCommand(&cobra.Command{Use: w, Run: func(*cobra.Command, []string) {}})
	}
	most := 2
	if len(word) < 5 { // most short words are near each other
		most = 1
	}
	for near.SuggestionsMinimumDistance = 1; near.SuggestionsMinimumDistance <= most; near.SuggestionsMinimumDistance++ {
		if found := near.SuggestionsFor(word); len(found) > 0 {
			return strings.Join(found, " or ")
		}
	}
	return ""
}

// quietHelp lets cobra not tell by itself that help could not be written: run does.
func quietHelp(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		out := c.OutOrStdout()
		var text bytes.Buffer
		c.SetOut(&text)
		defer c.SetOut(out)
		help(c, args)
		_, _ = text.WriteTo(out)
	})
}
