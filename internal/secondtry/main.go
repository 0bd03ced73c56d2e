// Command secondtry runs `go test` and shows what it would print. A failure that only a stall of
// the machine or of a server explains gets one more try; nothing else does.
//
//	secondtry [FLAG...] -- PACKAGE...    as go test has them, in the folder of a module
//
// Some tests talk to real servers or start, stop and kill real processes. They wait for what must
// happen, and a machine that others share may stall for longer than they wait. What such a failure
// looks like is decided from the events of `go test -json`, in judge.go, and by three lists that
// stand together in lists.go: the packages that may stall, the words of a wait that was in vain,
// and the words that no stall explains.
//
// The second try is the whole package again, so that what looks at all of it, for goroutines that
// were left, does so. Each test that failed must be seen to pass in it.
//
// Every second try is noted in $RINGFENCE_SECOND_TRIES, a folder: a line in the file `list`, and
// the whole output of both tries.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ok, err := run(ctx, os.Args[1:], goTest, os.Getenv("RINGFENCE_SECOND_TRIES"), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "secondtry:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// tester runs go test with some arguments, gives its stream of events to w, and says whether it
// ended well.
type tester func(ctx context.Context, args []string, w io.Writer) (ok bool, err error)

func goTest(ctx context.Context, args []string, w io.Writer) (bool, error) {
	cmd := exec.CommandContext(ctx, cmp.Or(os.Getenv("GO"), "go"), append([]string{"test", "-json"}, args...)...)
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	err := cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return false, ctx.Err()
	}
	return err == nil, err
}

// run is one or two tries.
func run(ctx context.Context, args []string, test tester, dir string, out io.Writer) (bool, error) {
	end := slices.Index(args, "--")
	if end < 0 {
		return false, fmt.Errorf("%q: expected flags of go test, --, and packages", args)
	}
	flags, packages := args[:end], args[end+1:]
	first := newStream(out)
	ok, err := test(ctx, slices.Concat(flags, packages), first)
	if err != nil {
		return false, err
	}
	failed, why := first.judge(ok)
	switch {
	case len(why) > 0:
		fmt.Fprintf(out, "no second try: %s\n", strings.Join(why, "; "))
		return false, nil
	case len(failed) == 0:
		return true, nil
	}
	fmt.Fprintf(out, "\nsecond try of %s, as a whole, for %s\n", strings.Join(packagesOf(failed), " "), names(failed))
	second := newStream(out)
	ok, err = test(ctx, slices.Concat(flags, []string{"-count=1"}, packagesOf(failed)), second)
	if err != nil {
		return false, err
	}
	if why := second.confirms(ok, failed); len(why) > 0 {
		fmt.Fprintf(out, "the second try failed, too: %s\n", strings.Join(why, "; "))
		return false, nil
	}
	return true, note(dir, failed, first, second, out)
}
