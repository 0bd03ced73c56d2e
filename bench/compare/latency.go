package compare

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/internal/measure"
)

// Latency measures from just before the produce call of one process to the handler in another,
// at a steady rate, beside NATS over TCP with its server in a third process.
func Latency(ctx context.Context, c Config, emit func(*measure.Report) error) error {
	fmt.Fprintln(c.Progress, "latency …")
	game := c.contest("latency", "µs, median")
	game.lower = true
	for _, name := range []string{peer.Ringfence, "nats"} {
		game.enter(name, func(h *measure.Histogram) (float64, error) {
			err := c.handOver(ctx, name, h)
			return h.Micros(0.5), err
		})
	}
	r, err := game.report(c.Rounds, "produce to the handler in another process, page cache, %d records/s of %d bytes, %s", c.Rate, c.Size, measure.Many(c.Rounds, "round"))
	if err != nil {
		return err
	}
	return emit(r)
}

// handOver produces to a consuming process, and for NATS through a server in a third one, for a turn in a
// folder of its own.
func (c Config) handOver(ctx context.Context, name string, h *measure.Histogram) (err error) {
	t := task{Peer: name, Size: max(c.Size, 8), Rate: c.Rate, Records: max(int64(float64(c.Rate)*c.Turn.Seconds()), 1)}
	if t.Dir, err = c.folder(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(t.Dir)) }()
	if t.Peer == "nats" {
		server, first, err := start(ctx, &serveJob{t})
		if err != nil {
			return err
		}
		defer server.End()
		t.URL = first.URL
	}
	consumer, _, err := start(ctx, &consumeJob{task: t})
	if err != nil {
		return err
	}
	defer consumer.End()
	add, end, err := t.producer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	var a answer
	if err := errors.Join(t.pace(ctx, add), consumer.Hear(&a)); err != nil {
		return err
	}
	h.Merge(&a.Latency)
	if a.Latency.Count() != t.Records {
		return fmt.Errorf("%s handed over %d of %d records", t.Peer, a.Latency.Count(), t.Records)
	}
	return nil
}

// childCommand is the argument that makes the program one of the processes of a measurement.
const childCommand = "bench-child"

// Child does the job of a child process, when the arguments of this process ask for one.
func Child(ctx context.Context, args []string) (asked bool, err error) {
	if len(args) != 3 || args[1] != childCommand {
		return false, nil
	}
	return true, harness.RunJob(ctx, args[2], os.Stdin, os.Stdout, &serveJob{}, &consumeJob{})
}

// task is what every child process is told.
type task struct {
	Peer    string
	Dir     string
	URL     string // of a server that runs already
	Size    int
	Records int64
	Rate    int
}

// answer is what a child process says.
type answer struct {
	URL     string            `json:",omitempty"`
	Latency measure.Histogram `json:",omitzero"`
}

// start starts this program again as a child, and waits for its first answer.
func start(ctx context.Context, job harness.Job) (*harness.Child, answer, error) {
	var a answer
	self, err := os.Executable()
	if err != nil {
		return nil, a, err
	}
	p, err := harness.StartChild(ctx, []string{self, childCommand}, nil, job)
	if err != nil {
		return nil, a, err
	}
	if err := p.Hear(&a); err != nil {
		p.End()
		return nil, a, err
	}
	return p, a, nil
}

// pace hands over a record with the moment of that in it, at the rate of the task.
func (t *task) pace(ctx context.Context, once func([]byte) error) error {
	value := payload(t.Size)
	return measure.Pace(ctx, time.Second/time.Duration(t.Rate), int(t.Records), func(int) error {
		binary.LittleEndian.PutUint64(value, uint64(history.Now()))
		return once(value)
	})
}
