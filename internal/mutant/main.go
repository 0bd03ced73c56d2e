// Command mutant puts known bugs into the code, one at a time, and shows that a named test
// catches each of them. A bug that no test notices means that the promise it breaks is not tested.
//
//	go run ./internal/mutant              all of them
//	go run ./internal/mutant -run fsync   those whose name matches
//	go run ./internal/mutant -list        what there is
//
// The source tree is never touched: the changed file is given to the compiler as an overlay.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutant:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutant", flag.ContinueOnError)
	pattern := flags.String("run", "", "only the mutants whose name matches this regular expression")
	list := flags.Bool("list", false, "name them, and run nothing")
	root := flags.String("root", ".", "the module's directory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*pattern)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	var chosen []mutant
	for _, m := range mutants() {
		if match.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant's name matches %q", *pattern)
	}
	if *list {
		for _, m := range chosen {
			fmt.Fprintf(out, "%-34s %s\n", m.name, m.breaks)
		}
		return nil
	}
	return judge(ctx, *root, chosen, out)
}

// judge runs the tests of the mutants on the code as it is, where they must pass, and then on each
// mutant, where its test must fail.
func judge(ctx context.Context, root string, chosen []mutant, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	h := harness{root: root, dir: dir}
	var missing map[string]error
	h.env, missing = h.servers(ctx, chosen)
	healthy := map[string]verdict{}
	wrong, left := 0, 0
	for _, m := range chosen {
		if err := missing[m.server]; err != nil {
			left++
			fmt.Fprintf(out, "%-34s NOT RUN, without its server: %v\n", m.name, err)
			if demanded(m.server) {
				wrong++
			}
			continue
		}
		key := m.pkg + " " + m.test
		if _, ok := healthy[key]; !ok {
			if healthy[key], err = h.expect(ctx, m, "", passed); err != nil {
				return err
			}
		}
		if v := healthy[key]; v.outcome != passed {
			wrong++
			fmt.Fprintf(out, "%-34s NO BASELINE %s %s without the bug: %s\n%s", m.name, m.test, v.outcome, m.pkg, v.output)
			continue
		}
		overlay, err := h.overlay(m)
		if err != nil {
			return err
		}
		v, err := h.expect(ctx, m, overlay, failed)
		if err != nil {
			return err
		}
		if v.outcome == failed {
			fmt.Fprintf(out, "%-34s caught%s by %s in %s\n", m.name, v.again, m.test, v.took.Round(10*time.Millisecond))
			continue
		}
		wrong++
		fmt.Fprintf(out, "%-34s SURVIVED: %s of %s %s, though %s\n%s", m.name, m.test, m.pkg, v.outcome, m.breaks,
			cmp.Or(strings.TrimSuffix(v.output, "\n")+"\n", ""))
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d bugs were not caught", wrong, len(chosen))
	}
	fmt.Fprintf(out, "%d of %d bugs were caught\n", len(chosen)-left, len(chosen))
	return nil
}
