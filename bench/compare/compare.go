// Package compare measures Ringfence and its peers side by side: the figures that the project
// promises of itself beside others, each from one run in which the contestants take turns.
package compare

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/internal/script"
)

func check(err error) { script.Check(err) }

func must[T any](v T, err error) T { return script.Must(v, err) }

// Config says what to measure, and how long.
type Config struct {
	Peers    []peer.Peer   // Ringfence has to be the first
	Rounds   int           // turns of each contestant
	Turn     time.Duration // length of one turn
	Dir      string        // on the disk to measure
	InFlight []int         // producers that wait for each ack
	Size     int           // bytes of a record
	Records  int           // to read; default 1 million
	Rate     int           // records a second when latency is measured
	Brokers  []string      // of Kafka: host:port
	Progress io.Writer     // what is going on
}

// Kind is one kind of measurement, as a script. It hands each report to emit as soon as it is there.
type Kind func(ctx context.Context, s *script.Script, c Config, emit func(*measure.Report))

// Kinds are all of them by name.
func Kinds() map[string]Kind {
	return map[string]Kind{"produce": Produce, "consume": Consume, "latency": Latency, "kafka": Kafka}
}

// promised are the figures that are promised beside others: how many times better Ringfence is.
var promised = []measure.Promise{
	// A record that is on the disk: what a queue, a stream, a key-value store and a database are chosen for.
	times("durable, 256 in flight", "nats", 100), times("durable, 256 in flight", "redis", 9), times("durable, 256 in flight", "pebble", 2),
	times("durable, 256 in flight", "tidwall", 1.3), times("durable, 256 in flight", "postgres", 10),
	// Catching up.
	times("read", "nats", 40), times("read", "tidwall", 2.5),
	// From one process to another; the smaller value is the better one.
	{Kind: kind("latency", "nats"), Name: "nats, of Ringfence", Need: 2},
	// What Ringfence adds to Kafka.
	times("kafka produce", "franz-go", 0.9), times("kafka consume", "franz-go", 0.9),
}

func times(what, peer string, need float64) measure.Promise {
	return measure.Promise{Kind: kind(what, peer), Name: "Ringfence, of " + peer, Need: need}
}

func kind(what, peer string) string { return what + " / " + peer }

// Validate reports what can't be measured.
func (c Config) Validate() error {
	switch {
	case len(c.Peers) == 0 || c.Peers[0].Name != peer.Ringfence:
		return fmt.Errorf("the first peer has to be %s: the others are compared with it", peer.Ringfence)
	case c.Rounds < 1 || c.Turn <= 0 || c.Size < 1 || c.Records < 1 || c.Rate < 1:
		return fmt.Errorf("rounds %d, turn %v, size %d, records %d and rate %d must be positive", c.Rounds, c.Turn, c.Size, c.Records, c.Rate)
	case c.Size > 1<<20:
		return fmt.Errorf("size is %d; expected at most %d bytes", c.Size, 1<<20)
	case len(c.InFlight) > 0 && slices.Min(c.InFlight) < 1:
		return fmt.Errorf("%d in flight; expected 1 or more", slices.Min(c.InFlight))
	}
	return nil
}

// folder makes an empty folder, until the script ends. Its path is short: sockets are put into it.
func (c Config) folder(s *script.Script) string {
	dir := must(os.MkdirTemp(c.Dir, "rfb"))
	s.Later(func() error { return os.RemoveAll(dir) })
	return dir
}

// available are the peers but without; one whose server is missing is left out too, with a word about it.
func (c Config) available(without ...string) []peer.Peer {
	var all []peer.Peer
	for _, p := range c.Peers {
		switch {
		case slices.Contains(without, p.Name):
		case !p.Available():
			fmt.Fprintf(c.Progress, "%s is left out: %s was not found\n", p.Name, p.Server)
		default:
			all = append(all, p)
		}
	}
	return all
}

// contest is one comparison of Ringfence with others.
type contest struct {
	measure.Contest
	what, unit string
	lower      bool // smaller values are better
	own        *measure.Entry
}

func (c Config) contest(what, unit string) *contest {
	return &contest{Contest: measure.Contest{Promises: promised, Rest: func() { measure.Rest(c.Dir) }}, what: what, unit: unit}
}

// enter adds a contestant; the first is Ringfence, which the others are compared with.
func (g *contest) enter(name string, turn func(t *measure.Turn) float64) {
	e := measure.Entry{Name: name, Unit: g.unit, Turn: turn}
	if g.own != nil {
		e.To, e.Reverse, e.Kind = g.own, !g.lower, kind(g.what, name)
		g.Add(e)
		return
	}
	g.own = g.Add(e)
}

// report plays the rounds and sums them up.
func (g *contest) report(rounds int, about string, args ...any) *measure.Report {
	check(g.Run(rounds))
	return &measure.Report{Bench: g.what, About: fmt.Sprintf(about, args...), Rows: g.Rows(), Figures: g.Figures()}
}

// opened is a store with the name of its peer.
type opened struct {
	peer.Store
	name string
}

// open opens every peer in a folder of its own.
func (c Config) open(ctx context.Context, s *script.Script, peers []peer.Peer, o peer.Options) (all []opened) {
	for _, p := range peers {
		o.Dir = c.folder(s)
		all = append(all, opened{p.Open(ctx, s, o), p.Name})
	}
	return all
}

// payload is a value that does not compress.
func payload(size int) []byte {
	b := make([]byte, size)
	rand.Read(b)
	return b
}

// Machine describes where a run took place, for the head of its report.
func Machine(dir string) string {
	var u unix.Utsname
	kernel := "unknown kernel"
	if err := unix.Uname(&u); err == nil {
		kernel = "Linux " + unix.ByteSliceToString(u.Release[:])
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	return fmt.Sprintf("%d cores, %s, %s, data in %s", runtime.NumCPU(), kernel, runtime.Version(), abs)
}
