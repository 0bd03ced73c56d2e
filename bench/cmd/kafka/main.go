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

	"github.com/ringfence/ringfence/bench/compare"
	"github.com/ringfence/ringfence/internal/measure"
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
	if *brokers == "" {
		u, err := url.Parse(os.Getenv("RINGFENCE_KAFKA_URL"))
		if err != nil || u.Host == "" {
			return errors.New("no brokers: expected -brokers host:port, or RINGFENCE_KAFKA_URL")
		}
		*brokers = u.Host
	}
	s.brokers = strings.Split(*brokers, ",")
	missed := false
	for _, text := range strings.Split(*sizes, ",") {
		size, err := strconv.Atoi(text)
		if err != nil || size < 1 {
			return fmt.Errorf("-sizes %s: expected numbers of bytes", *sizes)
		}
		err = s.compare(ctx, size, func(r compare.Report) error {
			missed = missed || !r.OK()
			return r.Write(os.Stdout, s.json)
		})
		if err != nil {
			return err
		}
	}
	if missed {
		return errMissed
	}
	return nil
}

// compare measures one size of records.
func (s settings) compare(ctx context.Context, size int, emit func(compare.Report) error) error {
	t, err := newTopics(ctx, s, size)
	if err != nil {
		return err
	}
	defer t.remove()
	for _, c := range []struct {
		name      string
		prepare   func(context.Context) error
		own, bare turn
	}{
		{"produce", func(context.Context) error { return nil }, t.produceOwn, t.produceBare},
		{"consume", t.fill, t.consumeOwn, t.consumeBare},
	} {
		if s.only != "" && s.only != c.name {
			continue
		}
		if err := c.prepare(ctx); err != nil {
			return err
		}
		var game measure.Contest
		var cpu [2][]float64 // ns a record, by round, the one that does not count too
		for i, who := range []struct {
			name string
			turn
		}{{"kafkalog", c.own}, {"franz-go", c.bare}} {
			game.Add(measure.Entry{Name: who.name, Turn: func(*measure.Histogram) (float64, error) {
				ns, rate, err := withCPU(ctx, who.turn)
				cpu[i] = append(cpu[i], ns)
				return rate, err
			}})
		}
		if err := game.Run(s.rounds); err != nil {
			return err
		}
		title := fmt.Sprintf("%s, records of %d bytes, %d partitions", c.name, size, s.partitions)
		ns := []measure.Row{measure.NewRow("kafkalog", "", cpu[0][1:]), measure.NewRow("franz-go", "", cpu[1][1:])}
		err := errors.Join(
			emit(compare.NewReport(title, "records/s", false, game.Rows(), map[string]float64{"franz-go": need}, nil)),
			emit(compare.NewReport(title, "ns of CPU per record", true, ns, nil, nil)))
		if err != nil {
			return err
		}
	}
	if s.only == "" || s.only == "mirror" {
		r, err := compareMirror(ctx, t)
		if err != nil {
			return err
		}
		return emit(r)
	}
	return nil
}

// turn is what is done in one turn: records a second.
type turn func(context.Context) (float64, error)

// withCPU also tells what a record takes of the processor, in ns: unlike its rate, that hardly depends
// on what else the machine does.
func withCPU(ctx context.Context, f turn) (ns, rate float64, err error) {
	before, _ := measure.ProcessorTime() // never fails for the process itself
	begun := time.Now()
	rate, err = f(ctx)
	records := rate * time.Since(begun).Seconds()
	after, _ := measure.ProcessorTime()
	return float64(after-before) / records, rate, err
}
