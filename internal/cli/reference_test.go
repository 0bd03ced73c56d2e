package cli

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/guide/cli-reference.md anew")

// reference is the page of the guide that lists every command and flag.
func reference() []byte {
	var page bytes.Buffer
	root := newApp(strings.NewReader(""), io.Discard, io.Discard).rootCommand()
	page.WriteString(`# Command line reference

<!-- Made from the program: go test ./internal/cli -run TestReference -update -->

"ringfence help COMMAND" explains a command and shows examples. Every command has these flags:

`)
	told := map[string]string{}
	flags(&page, root.PersistentFlags(), root.Name(), told)
	var add func(*cobra.Command)
	add = func(c *cobra.Command) {
		if !c.IsAvailableCommand() || c.Name() == "completion" || c.Name() == "help" {
			return
		}
		if !c.HasSubCommands() {
			fmt.Fprintf(&page, "\n## %s\n\n%s.\n", strings.TrimSuffix(c.UseLine(), " [flags]"), c.Short)
			if c.HasAvailableLocalFlags() {
				page.WriteString("\n")
			}
			flags(&page, c.LocalNonPersistentFlags(), c.CommandPath(), told)
		}
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	add(root)
	return page.Bytes()
}

// flags lists flags, one a line. A long line that an earlier command has too is told by the name of that.
func flags(page *bytes.Buffer, set *pflag.FlagSet, command string, told map[string]string) {
	same := map[string][]string{}
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		what, usage := pflag.UnquoteUsage(f)
		if what != "" {
			name += " " + what
		}
		if d := f.DefValue; d != "" && d != "0" && d != "0s" && d != "false" && d != "[]" {
			usage += " (default " + d + ")"
		}
		line := fmt.Sprintf("- `%s`: %s\n", name, usage)
		if first := told[line]; first != "" && len(line) > 60 {
			same[first] = append(same[first], "`--"+f.Name+"`")
			return
		}
		told[line] = command
		page.WriteString(line)
	})
	for _, first := range slices.Sorted(maps.Keys(same)) {
		fmt.Fprintf(page, "- %s: as of `%s`\n", strings.Join(same[first], ", "), first)
	}
}

func TestReferenceIsUpToDate(t *testing.T) {
	t.Parallel()
	const path = "../../docs/guide/cli-reference.md"
	page := reference()
	if *update {
		if err := os.WriteFile(path, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, page) {
		t.Errorf("%s is not what the program says (%v): go test ./internal/cli -run TestReference -update", path, err)
	}
}
