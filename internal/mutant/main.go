// Command mutant puts known bugs into the code, one at a time, and shows that a named test
// catches each of them. A bug that no test notices means that the promise it breaks is not tested.
//
//	go run ./internal/mutant              all of them
//	go run ./internal/mutant -run fsync   those whose name matches
//	go run ./internal/mutant -list        what there is
//	go run ./internal/mutant -parallel 1  one at a time
//	go run ./internal/mutant -part 2/3    the second third of them
//
// The source tree is never touched: the changed file is given to the compiler as an overlay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strconv"
	"strings"
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
	share := flags.String("part", "1/1", "which part of them, of how many: every third one from the second on is 2/3")
	parallel := flags.Int("parallel", 2*runtime.GOMAXPROCS(0), "how many bugs are tried at once; many tests wait more than they compute")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is nothing that is asked for; expected names as -run 'ONE|ANOTHER'", flags.Arg(0))
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
	if chosen, err = part(*share, chosen); err != nil {
		return err
	}
	if *list {
		for _, m := range chosen {
			fmt.Fprintf(out, "%-34s %s\n", m.name, m.breaks)
		}
		return nil
	}
	if *parallel < 1 {
		return fmt.Errorf("-parallel %d: expected 1 or more", *parallel)
	}
	return judge(ctx, *root, chosen, *parallel, out)
}

// part is every n-th mutant from the k-th on, for "k/n": neighbours are bugs of one kind, of which each part gets some.
func part(share string, all []mutant) (chosen []mutant, _ error) {
	first, of, _ := strings.Cut(share, "/")
	k, err := strconv.Atoi(first)
	n, err2 := strconv.Atoi(of)
	if errors.Join(err, err2) != nil || k < 1 || k > n {
		return nil, fmt.Errorf("-part %q: expected a part and how many there are, such as 1/2", share)
	}
	for i := k - 1; i < len(all); i += n {
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
