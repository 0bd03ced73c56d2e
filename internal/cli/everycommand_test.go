package cli

import (
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sample is how a command is called so that it does its work, on what withSamples makes.
type sample struct {
	line  string // behind its path
	quiet string // why this prints nothing on stdout, or can't run here; "": it prints something
}

const processes = "it starts processes of the program, which a test is not"

// samples are of all commands of the tree. A new command has to come with one.
var samples = map[string]sample{
	"apply": {"-f apply.yaml --dry-run", ""}, "backup": {"--to apply.yaml.backup/", ""}, "restore": {"--from -", "it reads a backup"},
	"completion bash": {}, "completion fish": {}, "completion powershell": {}, "completion zsh": {},
	"config": {"", "it is help"}, "status": {}, "why": {"billing k", ""}, "check all": {"--format json", ""}, "check lag": {}, "check age": {}, "check dead-letters": {}, "check owners": {}, "consume": {"orders --group other --max 1", ""}, "demo": {"", processes},
	"group delete": {"spare --yes", ""}, "group describe": {"spare", ""}, "group list": {}, "group pause": {"spare", ""},
	"group resume": {"spare", ""}, "group seek": {"spare --to earliest", ""}, "help": {"topic", ""}, "log check": {}, "log dump": {},
	"produce": {"orders --key k --format json", "the input is empty"}, "ring delete": {"round --yes", ""},
	"ring join": {"other", "nothing is asked"}, "ring list": {}, "ring owner": {"round k", ""}, "ring status": {"round", ""},
	"serve":               {"", "it prints nothing"},
	"subscription create": {"new --topic orders --endpoint https://example.com/", ""}, "subscription dead-letters discard": {"billing --all", ""},
	"subscription dead-letters edit": {"billing 0.0.0.0 --value-file apply.yaml", "there is no such record"}, "subscription dead-letters export": {"billing", "there is no record"},
	"subscription dead-letters list": {"billing", ""}, "subscription dead-letters redrive": {"billing --all", ""},
	"subscription dead-letters show": {"billing 0.0.0.0", "there is no such record"}, "subscription dead-letters skip": {"billing --all", ""},
	"subscription delete": {"mailing --yes", ""}, "subscription describe": {"billing", ""}, "subscription alter": {"billing --rate 5", ""}, "subscription limit": {"billing --rate 5", ""}, "subscription retry": {"billing --all", ""}, "subscription list": {}, "subscription pause": {"billing", ""},
	"subscription reshard": {"billing --shards 1", ""}, "subscription reset": {"billing --to earliest --dry-run", ""}, "subscription resume": {"billing", ""}, "subscription run": {"billing", "it runs until a signal"},
	"subscription why": {"billing k", ""}, "tail": {"orders --from earliest --max 1", ""}, "top": {"--count 1", ""},
	"topic add-storage": {"spare --partitions 2", ""}, "topic alter": {"spare --retention-age 1h --yes", ""}, "topic create": {"new --partitions 1", ""},
	"topic delete": {"useless --yes", ""}, "topic describe": {"orders", ""}, "topic list": {}, "topic mirror": {"file:///a file:///b orders", "it runs until a signal"},
	"topic check": {"spare", ""}, "topic repair": {"spare", ""}, "topic plan": {"grown", ""}, "topic retire": {"spare", ""}, "topic switch-produce": {"spare", ""}, "verify": {"", processes}, "version": {},
}

// atTheEnd are commands that take away what others look at.
var atTheEnd = []string{"group delete", "ring delete", "subscription delete", "topic retire", "topic delete"}

// everyCommand calls visit for all commands that do something, with their path below the program.
func everyCommand(t *testing.T, visit func(path string, cmd *cobra.Command)) {
	t.Helper()
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	commands := map[string]*cobra.Command{}
	var collect func(*cobra.Command)
	collect = func(c *cobra.Command) {
		_, path, _ := strings.Cut(c.CommandPath(), " ")
		if !c.HasSubCommands() && !c.Hidden {
			commands[path] = c
		}
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(a.rootCommand())
	order := slices.Sorted(maps.Keys(commands))
	slices.SortStableFunc(order, func(a, b string) int { return slices.Index(atTheEnd, a) - slices.Index(atTheEnd, b) })
	for _, path := range order {
		visit(path, commands[path])
	}
}

// called is a line with the sample of a command; ok: this can run here.
func called(t *testing.T, path, data string) (line []string, s sample, ok bool) {
	t.Helper()
	s, known := samples[path]
	if strings.HasPrefix(path, "bench ") {
		s, known = sample{"", processes}, true
	}
	if !known {
		t.Errorf("the command %q has no sample: expected one in samples, so that what holds for all commands is tested with it", path)
	}
	args := strings.Fields(strings.ReplaceAll(s.line, "apply.yaml", filepath.Join(filepath.Dir(data), "apply.yaml")))
	return slices.Concat(strings.Fields(path), args, []string{"--data", data, "--config="}), s, known && s.quiet == ""
}

// withSamples makes what the samples are about, and returns its directory.
func withSamples(t *testing.T) (data string) {
	t.Helper()
	dir := t.TempDir()
	data = filepath.Join(dir, "data")
	if err := os.WriteFile(filepath.Join(dir, "apply.yaml"), []byte("topics:\n  more:\n    partitions: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	subscriptionOf(t, data)
	for _, line := range []string{
		"topic create spare --partitions 1", "topic create useless --partitions 1", "topic create grown --partitions 1", "topic add-storage grown --partitions 2",
		"consume orders --group spare --idle-exit 1ms", "ring join round",
	} {
		if code, _, stderr := runLine(t, append(strings.Fields(line), "--data", data)...); code != 0 {
			t.Fatalf("%s: %s", line, stderr)
		}
	}
	a := newApp(strings.NewReader("a\n"), io.Discard, io.Discard)
	if code := a.run(t.Context(), []string{"produce", "orders", "--data", data}); code != 0 {
		t.Fatal("nothing was produced")
	}
	return data
}

// Whatever a command had to say and could not, its exit code tells, and one error; but a reader that went
// away has seen enough.
func TestEveryCommandTellsALostOutput(t *testing.T) {
	t.Parallel()
	data := withSamples(t)
	everyCommand(t, func(path string, _ *cobra.Command) {
		line, _, ok := called(t, path, data)
		if !ok {
			return
		}
		for err, want := range map[error]int{syscall.ENOSPC: 1, syscall.EPIPE: 0} {
			if err == syscall.EPIPE && slices.Contains(append(atTheEnd, "topic create", "subscription create", "topic add-storage", "topic switch-produce", "topic plan", "subscription reshard", "backup"), path) {
				continue // it can be done once
			}
			var told strings.Builder
			a := newApp(strings.NewReader(""), fails{err}, &told)
			if code := a.run(t.Context(), line); code != want || strings.Count(told.String(), err.Error()) != want || strings.Count(told.String(), "\n") != want {
				t.Errorf("%s into %v: exit code %d and %q; expected %d", path, err, code, &told, want)
			}
		}
	})
}

// Whatever is no number that makes sense is refused in one line that names the flag, and nothing is done.
func TestEveryNumberIsBounded(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "none")
	everyCommand(t, func(path string, cmd *cobra.Command) {
		line, _, _ := called(t, path, data)
		flags := cmd.LocalFlags()
		first, _, _ := strings.Cut(path, " ")
		if flags.Lookup("timeout") == nil && !slices.Contains([]string{"completion", "help", "config", "version"}, first) { // they look at nothing
			flags.AddFlag(cmd.Root().PersistentFlags().Lookup("timeout"))
		}
		flags.VisitAll(func(f *pflag.Flag) {
			for _, value := range senseless(f) {
				if f.Name == ageless && value == "2562047h" {
					continue
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // it would do what it is for
				var stdout, told strings.Builder
				code := newApp(strings.NewReader(""), &stdout, &told).run(ctx, append(slices.Clip(line), "--"+f.Name+"="+value))
				cancel()
				stderr := told.String()
				named := strings.Contains(stderr, f.Name) && strings.Contains(stderr, "expected") || strings.Contains(stderr, "is negative")
				if code != 2 || stdout.String() != "" || !named || strings.Contains(stderr, "strconv") {
					t.Errorf("%s --%s=%s: exit code %d, %q, %q; expected 2, and what was expected of the flag", path, f.Name, value, code, &stdout, stderr)
				}
			}
		})
	})
}

// senseless are values that no flag of the type of f takes.
func senseless(f *pflag.Flag) []string {
	switch f.Value.Type() {
	case "int", "int64":
		return []string{"-2", "x", "1.5", "9223372036854775808", ""}
	case "uint64":
		return []string{"-2", "x", "1.5", "18446744073709551616", ""}
	case "duration":
		return []string{"-2s", "x", "5", "2562047h", "2562048h", ""}
	case "float64":
		return []string{"-2", "x", "NaN", "Inf", ""}
	}
	return nil
}
