package cli

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// flagError turns a refusal of pflag into a usage error that names the flag that was meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if word := cmd.Flags().Arg(0); cmd.HasSubCommands() && word != "" { // its flags are not those of cmd
			return unknownCommand(cmd, word)
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := nearest(unknown.GetSpecifiedName(), names); near != "" {
			return fmt.Errorf("unknown flag --%s; did you mean --%s?: %w", unknown.GetSpecifiedName(), near, fault.Invalid)
		}
		dashes := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		return fmt.Errorf("unknown flag %s%s; see %q: %w", dashes, unknown.GetSpecifiedName(), cmd.CommandPath()+" --help", fault.Invalid)
	}
	var alone *pflag.ValueRequiredError
	if errors.As(err, &alone) {
		f := alone.GetFlag()
		kind, _ := pflag.UnquoteUsage(f)
		return fmt.Errorf("--%s is given without a value: expected --%s %s: %w", f.Name, f.Name, kind, fault.Invalid)
	}
	return fmt.Errorf("%w: %w", plainFlagError(err), fault.Invalid)
}

// plainFlagError drops the call of strconv that pflag shows to people.
func plainFlagError(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	f, expected := bad.GetFlag(), kindOf(bad.GetFlag().Value.Type())
	if errors.Is(err, strconv.ErrRange) {
		expected += ", and not so large a one"
	}
	return fmt.Errorf("--%s %s: expected %s", f.Name, storeurl.Quote(bad.GetValue()), expected)
}

func kindOf(flagType string) string {
	switch flagType {
	case "int", "int64", "uint", "uint64", "int32":
		return "a number"
	case "duration":
		return "a time such as 500ms, 2s or 1h"
	case "bool":
		return "true or false"
	case "intSlice":
		return "a number, or several with commas between them"
	case "stringSlice", "stringArray", "string":
		return "a text"
	case "float64":
		return "a number such as 0.5"
	}
	return "a " + flagType
}

// completeWith offers the values of a flag to the shell; the flag must be there already.
func completeWith(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails for an unknown flag only
}

// wrapUsage makes the refusals of argument checks usage errors that show how it goes, with what is wrong
// about the flags.
func (a *app) wrapUsage(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		a.wrapUsage(c)
	}
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			err = fmt.Errorf("found %s; expected: %s: %w", plural(int64(len(args)), "argument"), strings.TrimSuffix(c.UseLine(), " [flags]"), fault.Invalid)
			return errors.Join(err, a.prepare(c))
		}
		return nil
	}
}

// oneOf marks flags of which at least one has to be given, in words of ours.
func (a *app) oneOf(cmd *cobra.Command, names ...string) {
	cmd.MarkFlagsOneRequired(names...) // for the completion of shells
	a.together(cmd, func() error {
		if len(changed(cmd, names)) > 0 {
			return nil
		}
		return fmt.Errorf("nothing to do: expected %s: %w", dashed(names, " or "), fault.Invalid)
	})
}

// onlyOneOf marks flags of which at most one may be given.
func (a *app) onlyOneOf(cmd *cobra.Command, names ...string) {
	cmd.MarkFlagsMutuallyExclusive(names...)
	a.together(cmd, func() error {
		if given := changed(cmd, names); len(given) > 1 {
			return fmt.Errorf("%s: expected one of them: %w", dashed(given, " and "), fault.Invalid)
		}
		return nil
	})
}

// together notes what settle checks of flags that belong together, before cobra does it in its own words.
func (a *app) together(cmd *cobra.Command, check func() error) {
	if a.groups == nil {
		a.groups = make(map[*cobra.Command][]func() error)
	}
	a.groups[cmd] = append(a.groups[cmd], check)
}

func changed(cmd *cobra.Command, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !cmd.Flags().Changed(n) })
}

// dashed is a list of flags as one writes it: --a, --b and --c.
func dashed(names []string, last string) string {
	text := "--" + names[len(names)-1]
	if rest := names[:len(names)-1]; len(rest) > 0 {
		text = "--" + strings.Join(rest, ", --") + last + text
	}
	return text
}

// nearest is the word of a list that word was most likely meant to be, of two the one that is as long; "" when
// none is near.
func nearest(word string, list []string) string {
	best, bestDistance := "", max(1, min(2, len(word)-2), len(word)/3)+1
	for _, w := range list {
		d := editDistance(word, w)
		if len(word) >= 3 && strings.HasPrefix(w, word) {
			d = 1
		}
		if d < bestDistance || d == bestDistance && best != "" && off(w, word) < off(best, word) {
			best, bestDistance = w, d
		}
	}
	return best
}

// off is by how much two words differ in length.
func off(a, b string) int { return max(len(a)-len(b), len(b)-len(a)) }

// editDistance counts the insertions, removals and replacements of bytes between two words.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
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
