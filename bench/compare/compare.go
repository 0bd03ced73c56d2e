// Package compare measures Ringfence and its peers side by side: the figures that the project
// promises, each from one run in which the contestants take turns.
package compare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/measure"
)

// Config says what to measure, and how long.
type Config struct {
	Peers      []peer.Peer   // Ringfence has to be the first
	Rounds     int           // turns of each contestant
	Turn       time.Duration // length of one turn
	Dir        string        // on the disk to measure
	InFlight   []int         // producers that wait for each ack
	Size       int           // bytes of a record
	Durability []peer.Durability
	Records    int64     // records to read or to reopen with; default 1 and 5 million
	Rate       int       // records a second when latency is measured
	Progress   io.Writer // what is going on
}

// Kind is one kind of measurement. It hands each report to emit as soon as it is there.
type Kind func(ctx context.Context, c Config, emit func(Report) error) error

// Kinds are all of them by name.
func Kinds() map[string]Kind {
	return map[string]Kind{"produce": Produce, "consume": Consume, "latency": Latency, "reopen": Reopen}
}

// Validate reports what can't be measured.
func (c Config) Validate() error {
	switch {
	case len(c.Peers) == 0 || c.Peers[0].Name != peer.Ringfence:
		return fmt.Errorf("the first peer has to be %s: the others are compared with it", peer.Ringfence)
	case c.Rounds < 1 || c.Turn <= 0 || c.Size < 1 || c.Records < 0 || c.Rate < 1:
		return fmt.Errorf("rounds %d, turn %v, size %d, records %d and rate %d must be positive", c.Rounds, c.Turn, c.Size, c.Records, c.Rate)
	case c.Size > 1<<20:
		return fmt.Errorf("size is %d; expected at most %d bytes", c.Size, 1<<20)
	case len(c.InFlight) > 0 && slices.Min(c.InFlight) < 1:
		return fmt.Errorf("%d in flight; expected 1 or more", slices.Min(c.InFlight))
	}
	return nil
}

// folder makes an empty folder for one store. Its path is short: sockets are put into it.
func (c Config) folder() (string, error) { return os.MkdirTemp(c.Dir, "rfb") }

// available are the peers of only (nil: all of them) but without; one whose server is missing is
// left out too, with a word about it.
func (c Config) available(only, without []string) []peer.Peer {
	var all []peer.Peer
	for _, p := range c.Peers {
		switch {
		case only != nil && !slices.Contains(only, p.Name), slices.Contains(without, p.Name):
		case !p.Available():
			fmt.Fprintf(c.Progress, "%s is left out: %s was not found\n", p.Name, p.Server)
		default:
			all = append(all, p)
		}
	}
	return all
}

// contest lets contestants take turns.
func (c Config) contest() *measure.Contest {
	return &measure.Contest{Rest: func() { measure.Rest(c.Dir) }}
}

// opened is a store with its folder.
type opened struct {
	peer.Store
	name string
	dir  string
}

// open opens every peer in a folder of its own; close undoes it.
func (c Config) open(ctx context.Context, peers []peer.Peer, o peer.Options) ([]opened, error) {
	var all []opened
	for _, p := range peers {
		dir, err := c.folder()
		if err != nil {
			closeAll(c.Progress, all)
			return nil, err
		}
		o.Dir = dir
		s, err := p.Open(ctx, o)
		if err != nil {
			closeAll(c.Progress, all)
			return nil, errors.Join(fmt.Errorf("open %s: %w", p.Name, err), os.RemoveAll(dir))
		}
		all = append(all, opened{s, p.Name, dir})
	}
	return all, nil
}

func closeAll(progress io.Writer, all []opened) {
	for _, o := range all {
		if err := errors.Join(o.Close(), os.RemoveAll(o.dir)); err != nil {
			fmt.Fprintf(progress, "close %s: %v\n", o.name, err)
		}
	}
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

// childCommand is the argument that makes the program one of the processes of a measurement.
const childCommand = "bench-child"

// Child does the job of a child process, when the arguments of this process ask for one.
func Child(ctx context.Context, args []string) (asked bool, err error) {
	if len(args) != 3 || args[1] != childCommand {
		return false, nil
	}
	return true, harness.RunJob(ctx, args[2], os.Stdin, os.Stdout, &serveJob{}, &produceJob{}, &consumeJob{}, &fillJob{}, &reopenJob{})
}

// task is what every child process is told.
type task struct {
	Peer       string
	Dir        string
	URL        string // of a server that runs already
	Durability peer.Durability
	Size       int
	Records    int64
	Rate       int
}

// answer is what a child process says.
type answer struct {
	URL     string            `json:",omitempty"`
	Count   int64             `json:",omitempty"`
	Elapsed time.Duration     `json:",omitempty"`
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
