// Peers measures Ringfence and the systems it is compared with, side by side in one run.
//
//	go run ./cmd/peers -run produce -peers nats,pebble -rounds 5 -seconds 1
//
// With -run kafka it compares kafkalog with a bare franz-go program, on a broker that runs already.
// See docs/guide/benchmarks.md for what the tables mean.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/bench/compare"
	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/internal/script"
)

func main() { os.Exit(program()) }

// program returns the exit code: 0 ok, 1 failure, 2 usage.
func program() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	asked, err := compare.Child(ctx, os.Args)
	if !asked {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(os.Stderr, "peers:", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

var (
	errUsage  = errors.New("usage: peers -h")
	errMissed = errors.New("a promised figure was missed")
)

// settings are the flags.
type settings struct {
	compare.Config
	runs   []string
	json   bool
	strict bool
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	s, err := parse(args, progress)
	if err != nil {
		return err
	}
	s.Progress = progress
	if !s.json {
		fmt.Fprintln(out, compare.Machine(s.Dir))
	}
	missed := 0
	emit := func(r *measure.Report) {
		missed += r.Missed()
		if s.json {
			script.Check(json.NewEncoder(out).Encode(r))
			return
		}
		fmt.Fprintln(out)
		script.Check(r.Text(out))
	}
	for _, name := range s.runs {
		err := script.Try(func(life *script.Script) { compare.Kinds()[name](ctx, life, s.Config, emit) })
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if missed > 0 && s.strict {
		return errMissed
	}
	return nil
}

func parse(args []string, w io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(w)
	runs := f.String("run", "produce,consume,latency", "what to measure, separated by commas; kafka too, where there is a broker")
	peers := f.String("peers", "", "systems to compare with, separated by commas (default: all that are installed)")
	inFlight := f.String("inflight", "1,16,256", "producers that wait for each ack")
	seconds := f.Float64("seconds", 1, "length of one turn")
	f.IntVar(&s.Rounds, "rounds", 5, "turns of each contestant")
	f.IntVar(&s.Size, "size", 100, "bytes of a record")
	f.IntVar(&s.Records, "records", 1_000_000, "records to read back")
	f.IntVar(&s.Rate, "rate", 1000, "records a second when latency is measured")
	brokers := f.String("brokers", "", "host:port,… of Kafka's brokers (default those of RINGFENCE_KAFKA_URL, as scripts/services env prints it)")
	f.StringVar(&s.Dir, "dir", os.TempDir(), "a folder on the disk to measure")
	f.BoolVar(&s.json, "json", false, "one JSON object a report")
	f.BoolVar(&s.strict, "strict", false, "exit with 1 when a promised figure is missed")
	f.Usage = func() {
		fmt.Fprintln(w, "peers measures Ringfence and the systems it is compared with, in turns, in one run.")
		f.PrintDefaults()
		fmt.Fprintln(w, "The peers:")
		for _, p := range peer.All() {
			fmt.Fprintf(w, "  %-10s %s\n", p.Name, p.About)
		}
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return s, err
	case err != nil:
		bad("%w", err)
	case f.NArg() > 0:
		bad("unexpected argument %q", f.Arg(0))
	}
	s.Turn = time.Duration(*seconds * float64(time.Second))
	s.runs = split(*runs)
	for _, name := range s.runs {
		if compare.Kinds()[name] == nil {
			bad("unknown run %q; expected produce, consume, latency or kafka", name)
		}
	}
	for _, n := range split(*inFlight) {
		v, err := strconv.Atoi(n)
		if err != nil {
			bad("in flight %q: expected a number", n)
		}
		s.InFlight = append(s.InFlight, v)
	}
	if u, err := url.Parse(os.Getenv("RINGFENCE_KAFKA_URL")); *brokers == "" && err == nil {
		*brokers = u.Host
	}
	s.Brokers = split(*brokers)
	var unknown, nowhere error
	s.Peers, unknown = peer.Named(split(*peers))
	s.Dir, nowhere = filepath.Abs(s.Dir) // servers run in folders of their own
	if errs = append(errs, unknown, nowhere); errors.Join(errs...) == nil {
		errs = append(errs, s.Validate())
	}
	if err := errors.Join(errs...); err != nil {
		return s, fmt.Errorf("%w (%w)", err, errUsage)
	}
	return s, nil
}

func split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
