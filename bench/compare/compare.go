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

	"github.com/ringfence/ringfence/bench/measure"
	"github.com/ringfence/ringfence/bench/peer"
)

// Config says what to measure, and how long.
type Config struct {
	Peers      []peer.Peer       // Ringfence has to be the first
	Rounds     int               // turns of each contestant; default 5
	Turn       time.Duration     // length of one turn; default 1 s
	Dir        string            // on the disk to measure; default the system's temporary folder
	InFlight   []int             // producers that wait for each ack; default 1, 16, 256
	Size       int               // bytes of a record; default 100
	Durability []peer.Durability // default both
	Records    int64             // records to read or to reopen with; default 1 and 5 million
	Rate       int               // records a second when latency is measured; default 1,000
	Progress   io.Writer         // what is going on; default nowhere
}

func (c Config) withDefaults() Config {
	if c.Rounds == 0 {
		c.Rounds = 5
	}
	if c.Turn == 0 {
		c.Turn = time.Second
	}
	if c.Dir == "" {
		c.Dir = os.TempDir()
	}
	if len(c.InFlight) == 0 {
		c.InFlight = []int{1, 16, 256}
	}
	if c.Size == 0 {
		c.Size = 100
	}
	if len(c.Durability) == 0 {
		c.Durability = []peer.Durability{peer.Sync, peer.OS}
	}
	if c.Rate == 0 {
		c.Rate = 1000
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	return c
}

// Validate reports what can't be measured.
func (c Config) Validate() error {
	switch {
	case len(c.Peers) == 0 || c.Peers[0].Name != peer.Ringfence:
		return fmt.Errorf("the first peer has to be %s: the others are compared with it", peer.Ringfence)
	case c.Rounds < 0 || c.Turn < 0 || c.Size < 0 || c.Records < 0 || c.Rate < 0:
		return fmt.Errorf("rounds %d, turn %v, size %d, records %d and rate %d must not be negative", c.Rounds, c.Turn, c.Size, c.Records, c.Rate)
	case c.Size > 1<<20:
		return fmt.Errorf("size is %d; expected at most %d bytes", c.Size, 1<<20)
	}
	for _, n := range c.InFlight {
		if n < 1 {
			return fmt.Errorf("%d in flight; expected 1 or more", n)
		}
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

// rest brings the disk and the heap to rest, so that nobody pays for the turn before.
func (c Config) rest() {
	runtime.GC()
	d, err := os.Open(c.Dir)
	if err != nil {
		return // the turn will meet the error itself
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		fmt.Fprintf(c.Progress, "syncfs %s: %v\n", c.Dir, err)
	}
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
		if err := o.Close(); err != nil {
			fmt.Fprintf(progress, "close %s: %v\n", o.name, err)
		}
		if err := os.RemoveAll(o.dir); err != nil {
			fmt.Fprintf(progress, "remove %s: %v\n", o.dir, err)
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

// bound makes a promise about one figure: at least need, or with atMost at most.
func bound(what string, got, need float64, atMost bool) measure.Bound {
	return measure.Bound{What: what, Got: got, Need: need, OK: got > 0 && (got >= need) != atMost}
}
