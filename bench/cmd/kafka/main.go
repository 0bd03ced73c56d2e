// Kafka compares kafkalog with a bare franz-go program that does the same work on the same
// broker in the same run: produce with acks=all, one record at a time, each with its own answer;
// consume everything that is there. And it measures how fast a directory is mirrored to Kafka, of
// the rate at which kafkalog produces.
//
//	go run ./cmd/kafka -brokers 127.0.0.1:9092
//
// Without -brokers the address comes from RINGFENCE_KAFKA_URL, as `scripts/services env` prints it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/bench/measure"
)

func main() { os.Exit(program()) }

// program returns the exit code.
func program() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kafka:", err)
		return 1
	}
	return 0
}

// need is how much of franz-go's throughput has to come through.
const need = 0.9

var errMissed = errors.New("a promised figure was missed")

// settings are the flags.
type settings struct {
	brokers    []string
	partitions int
	rounds     int
	produce    time.Duration // of one turn
	records    int           // megabytes of the topic that is consumed
	mirror     int           // and of the one that is mirrored
	sizes      []int
	json       bool
	only       string
}

func run(ctx context.Context) error {
	var s settings
	brokers := flag.String("brokers", "", "host:port,… of the brokers")
	sizes := flag.String("sizes", "100,1024", "bytes of a record's value")
	flag.IntVar(&s.partitions, "partitions", 4, "partitions of the topics")
	flag.IntVar(&s.rounds, "rounds", 5, "rounds in which each has one turn")
	flag.DurationVar(&s.produce, "produce", time.Second, "how long one turn produces")
	flag.IntVar(&s.records, "megabytes", 256, "size of the topic that is consumed")
	flag.IntVar(&s.mirror, "mirror-megabytes", 192, "size of the topic that is mirrored")
	flag.BoolVar(&s.json, "json", false, "print JSON")
	flag.StringVar(&s.only, "run", "", "produce, consume or mirror; empty: all")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this file")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	for _, text := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-sizes %s: expected numbers of bytes", *sizes)
		}
		s.sizes = append(s.sizes, n)
	}
	if *brokers == "" {
		u, err := url.Parse(os.Getenv("RINGFENCE_KAFKA_URL"))
		if err != nil || u.Host == "" {
			return errors.New("no brokers: expected -brokers host:port, or RINGFENCE_KAFKA_URL")
		}
		*brokers = u.Host
	}
	s.brokers = strings.Split(*brokers, ",")
	missed := false
	for _, size := range s.sizes {
		reports, err := compare(ctx, s, size)
		if err != nil {
			return err
		}
		for _, r := range reports {
			if s.json {
				err = json.NewEncoder(os.Stdout).Encode(r)
			} else {
				err = r.Text(os.Stdout)
			}
			if err != nil {
				return err
			}
			for _, row := range r.Rows {
				missed = missed || !row.OK
			}
		}
	}
	if missed {
		return errMissed
	}
	return nil
}

// compare measures one size of records.
func compare(ctx context.Context, s settings, size int) ([]measure.Report, error) {
	t, err := newTopics(ctx, s, size)
	if err != nil {
		return nil, err
	}
	defer t.remove()
	want := map[string]float64{"franz-go": need}
	var reports []measure.Report
	for _, c := range []struct {
		name      string
		own, bare func(context.Context) (measure.Sample, error)
	}{
		{"produce", t.produceOwn, t.produceBare},
		{"consume", t.consumeOwn, t.consumeBare},
	} {
		if s.only != "" && s.only != c.name {
			continue
		}
		if c.name == "consume" {
			if err := t.fill(ctx); err != nil {
				return nil, err
			}
		}
		cpu := map[string][]measure.Sample{}
		series, err := measure.Interleave(ctx, s.rounds, []measure.Contestant{
			{Name: "kafkalog", Run: withCPU(cpu, "kafkalog", c.own)}, {Name: "franz-go", Run: withCPU(cpu, "franz-go", c.bare)},
		}, func() {})
		if err != nil {
			return nil, err
		}
		title := fmt.Sprintf("%s, records of %d bytes, %d partitions", c.name, size, s.partitions)
		reports = append(reports, measure.Compare(title, "records/s", false, series, nil, want),
			measure.Compare(title, "ns of CPU per record", true, []measure.Series{
				{Name: "kafkalog", Samples: cpu["kafkalog"][1:]}, {Name: "franz-go", Samples: cpu["franz-go"][1:]},
			}, nil, nil))
	}
	if s.only == "" || s.only == "mirror" {
		r, err := compareMirror(ctx, t)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// withCPU notes what a turn takes of the processor: unlike its rate, that hardly depends on what
// else the machine does.
func withCPU(all map[string][]measure.Sample, name string, f func(context.Context) (measure.Sample, error)) func(context.Context) (measure.Sample, error) {
	return func(ctx context.Context) (measure.Sample, error) {
		before, begun := cpuTime(), time.Now()
		sample, err := f(ctx)
		if n := sample.Value * time.Since(begun).Seconds(); err == nil && n > 0 {
			all[name] = append(all[name], measure.Sample{Value: float64(cpuTime()-before) / n})
		}
		return sample, err
	}
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
