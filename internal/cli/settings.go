package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/ringfence/ringfence/internal/access"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/storeurl"
)

const envPrefix = "RINGFENCE_"

// settle completes the flags of cmd from the environment and the configuration file, and names all mistakes in them.
func (a *app) settle(cmd *cobra.Command) error {
	if !needsStores(cmd) {
		return nil
	}
	a.place = placeOf(cmd.Root().PersistentFlags())
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags := cmd.Flags()
		if global := cmd.Root().PersistentFlags().Lookup(f.Name); global != nil && global != f {
			// "subscription create" has a --timeout of its own: the variable is of that of all commands.
			flags, f = cmd.Root().PersistentFlags(), global
		}
		value := a.getenv(envName(f.Name))
		if f.Changed || value == "" || f.Name == "help" || f.Name == "version" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s: %w: %w", envName(f.Name), plainFlagError(err), fault.Invalid))
		}
	})
	if a.global.config != "" {
		errs = append(errs, a.readFile(cmd)...)
	}
	if strings.Contains(a.global.data, "://") {
		errs = append(errs, fmt.Errorf("--data %s: expected a directory; URLs go to --log and --registry: %w", storeurl.Quote(a.global.data), fault.Invalid))
	}
	if !cmd.Hidden { // a process of ours starts that
		errs = append(errs, checkValues(cmd.Flags())...)
	}
	errs = append(errs, a.checkGlobals(cmd.Annotations["formats"])...)
	a.warnOfTypos(cmd.Root())
	return errors.Join(errs...)
}

// placeOf are the flags of the line that say where things are, as a command that is advised has to repeat them. A URL with a
// password is not shown.
func placeOf(flags *pflag.FlagSet) (line string) {
	for _, name := range []string{"config", "data", "log", "registry", "namespace"} {
		if f := flags.Lookup(name); f.Changed {
			value := f.Value.String()
			switch {
			case (name == "log" || name == "registry") && storeurl.HasPassword(value):
				value = "URL"
			case strings.ContainsAny(value, " \t\n\"'\\$`&;|<>()*?[]#~!{}"):
				value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
			}
			line += " --" + name + " " + value
		}
	}
	return line
}

// warnOfTypos names variables that look like a setting and are none; others may use the prefix too, so it only warns.
func (a *app) warnOfTypos(root *cobra.Command) {
	var names []string
	var collect func(*cobra.Command)
	collect = func(c *cobra.Command) {
		note := func(f *pflag.Flag) { names = append(names, envName(f.Name)) }
		c.Flags().VisitAll(note)
		c.PersistentFlags().VisitAll(note)
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(root)
	slices.Sort(names)
	names = slices.Compact(names)
	for _, kv := range a.environ {
		variable, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(variable, envPrefix) || value == "" || slices.Contains(names, variable) {
			continue
		}
		if near := nearest(variable, names); near != "" {
			a.logger().Warn("an environment variable is no setting", "variable", variable, "did_you_mean", near)
		}
	}
}

// needsStores says whether a command works on stores; the others must not fail for a broken configuration.
func needsStores(cmd *cobra.Command) bool {
	if cmd.HasSubCommands() {
		return false // it only says which commands there are
	}
	for c := cmd; c != nil; c = c.Parent() {
		switch c.Name() {
		case "help", "completion", "version", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
			return false
		}
	}
	return true
}

// envName is the environment variable of a flag: RINGFENCE_IDLE_EXIT for --idle-exit.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// getenv is the value of a variable; "": it is not set.
func (a *app) getenv(name string) string {
	for i := len(a.environ) - 1; i >= 0; i-- {
		if k, v, _ := strings.Cut(a.environ[i], "="); k == name {
			return v
		}
	}
	return ""
}

// checkGlobals reports the mistakes in the settings that all commands share. another is a format that this command has
// besides; "": none.
func (a *app) checkGlobals(another string) []error {
	var errs []error
	g := &a.global
	switch {
	case g.format == "text", g.format == "json", g.format == another && another != "":
	case another != "":
		errs = append(errs, fmt.Errorf("format %s: expected \"text\", \"json\" or %q: %w", storeurl.Quote(g.format), another, fault.Invalid))
	default:
		errs = append(errs, fmt.Errorf("format %s: expected \"text\" or \"json\": %w", storeurl.Quote(g.format), fault.Invalid))
	}
	if g.logFormat != "text" && g.logFormat != "json" {
		errs = append(errs, fmt.Errorf("log-format %s: expected \"text\" or \"json\": %w", storeurl.Quote(g.logFormat), fault.Invalid))
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(g.logLevel)); err != nil {
		errs = append(errs, fmt.Errorf("log-level %s: expected \"debug\", \"info\", \"warn\" or \"error\": %w", storeurl.Quote(g.logLevel), fault.Invalid))
	}
	return append(errs, a.clientConfig().Validate())
}

// readFile applies the configuration file to the flags that were not given.
//
// At the top of the file stand the flags that every command has; the flags of one command stand
// below its name. A key that is no flag is a mistake, whichever command runs.
func (a *app) readFile(cmd *cobra.Command) []error {
	ctx := cmd.Context()
	if a.global.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.global.timeout)
		defer cancel()
	}
	raw, err := a.readInput(ctx, a.global.config, limits.SettingsFileBytes, "the configuration")
	if err != nil {
		err = fmt.Errorf("configuration file: %w", err)
		switch {
		case errors.Is(err, errSignalled):
			err = &exitError{err, fault.ExitFailure}
		case ctx.Err() != nil:
			err = &exitError{fmt.Errorf("gave up after %s (--timeout): %w", a.global.timeout, err), fault.ExitTimeout}
		}
		return []error{err}
	}
	var tree map[string]any
	if err := yaml.Unmarshal(raw, &tree); err != nil {
		text := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " ")
		return []error{fmt.Errorf("configuration file %s: no valid YAML: %s: %w", a.global.config, text, fault.Invalid)}
	}
	if err := checkSecrecy(a.global.config, tree); err != nil {
		return []error{err}
	}
	r := fileReader{path: a.global.config}
	r.section(cmd.Root(), "", tree)
	return r.errs
}

// checkSecrecy refuses a file with a password in it that other users can read.
func checkSecrecy(path string, tree map[string]any) error {
	if !holdsPassword(tree) {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() { // else <(a command), for example
		err = access.Check(path, info)
	}
	if err != nil {
		return fmt.Errorf("configuration file with a password: %w: %w", err, fault.Invalid)
	}
	return nil
}

// holdsPassword looks for URLs with a password among the values of a configuration file.
func holdsPassword(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, e := range v {
			if holdsPassword(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, holdsPassword)
	case string:
		return strings.Contains(v, ":") && storeurl.HasPassword(v)
	}
	return false
}

type fileReader struct {
	path string
	errs []error
}

func (r *fileReader) fail(key, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("configuration file %s: %s: %s: %w", r.path, key, fmt.Sprintf(format, args...), fault.Invalid))
}

func (r *fileReader) section(cmd *cobra.Command, prefix string, tree map[string]any) {
	flags := cmd.LocalNonPersistentFlags()
	if !cmd.HasParent() {
		flags = cmd.PersistentFlags()
	}
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		full := prefix + key
		if flags.Lookup(key) != nil && key != "help" && key != "config" {
			r.flag(flags, key, full, tree[key])
			continue
		}
		if sub := child(cmd, key); sub != nil {
			below, ok := tree[key].(map[string]any)
			if !ok && tree[key] != nil {
				r.fail(full, "expected the flags of the command %q below it", sub.CommandPath())
				continue
			}
			r.section(sub, full+".", below)
			continue
		}
		hint := ""
		if near := nearest(key, fileKeys(cmd, flags)); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		r.fail(full, "unknown setting%s", hint)
	}
}

// flag sets one flag that is not given. Flags of other commands are set too, so that their values are checked.
func (r *fileReader) flag(flags *pflag.FlagSet, name, full string, value any) {
	if flags.Lookup(name).Changed {
		return
	}
	texts, err := scalars(value)
	if err != nil {
		r.fail(full, "%s", err)
		return
	}
	for _, text := range texts {
		if text == "" && !slices.Contains(mayBeEmpty, name) {
			r.fail(full, "expected a value, found nothing")
			continue
		}
		if err := flags.Set(name, text); err != nil {
			r.fail(full, "%s", plainFlagError(err))
		}
	}
}

// scalars are the values of a setting as a command line would have them.
func scalars(value any) ([]string, error) {
	switch v := value.(type) {
	case []any:
		var all []string
		for _, e := range v {
			one, err := scalars(e)
			if err != nil {
				return nil, err
			}
			all = append(all, one...)
		}
		return all, nil
	case map[string]any:
		return nil, errors.New("expected a value or a list of values, found a section")
	case nil:
		return nil, errors.New("expected a value, found nothing")
	default:
		return []string{fmt.Sprint(v)}, nil
	}
}

func child(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name && c.IsAvailableCommand() {
			return c
		}
	}
	return nil
}

func fileKeys(cmd *cobra.Command, flags *pflag.FlagSet) []string {
	var keys []string
	flags.VisitAll(func(f *pflag.Flag) { keys = append(keys, f.Name) })
	for _, c := range cmd.Commands() {
		keys = append(keys, c.Name())
	}
	return keys
}

// configTopic is "ringfence help config".
func (a *app) configTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "How flags, environment and configuration file work together",
		Long: `Every flag has three sources. The first one that gives a value wins:

  1. the command line            --data /var/lib/rf
  2. the environment             RINGFENCE_DATA=/var/lib/rf     (dashes become _)
  3. the file named by --config or RINGFENCE_CONFIG

In the file the flags that every command has stand at the top, and the flags of one
command below its name. A setting that does not exist is an error, and all errors are
reported at once:

  data: /var/lib/rf
  durability: sync
  topic:
    create:
      partitions: 16
  produce:
    header: [source=web, region=eu]
  consume:
    group: billing
    concurrency: 32`,
	}
}
