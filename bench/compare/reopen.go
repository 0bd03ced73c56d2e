package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/measure"
)

const (
	reopenRecords = 5_000_000
	reopenLimit   = 30.0 // milliseconds, warm
	flatFactor    = 2.0  // the whole backlog may take so many times as long as a tenth of it, and 5 ms
)

// Reopen measures how long a store needs, after kill -9 of the process that wrote it, until it has
// counted its records and taken one more append. Each round kills it again.
func Reopen(ctx context.Context, c Config, emit func(Report) error) error {
	if c.Records == 0 {
		c.Records = reopenRecords
	}
	tenth := 0.0
	for _, n := range []int64{c.Records / 10, c.Records} {
		rows, err := c.reopenAll(ctx, n)
		if err != nil {
			return err
		}
		r := NewReport(fmt.Sprintf("reopen after kill -9 with %d records of %d B, warm", n, c.Size), "ms", true, rows, nil, nil)
		if own := r.Rows[0].Median; tenth > 0 {
			r.bound("milliseconds", own, reopenLimit, true)
			r.bound("milliseconds, to be flat in the backlog", own, flatFactor*tenth+5, true)
		} else {
			tenth = own
		}
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) reopenAll(ctx context.Context, n int64) (_ []measure.Row, err error) {
	all, err := c.folder()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(all)) }()
	game := c.contest()
	for _, p := range c.available(nil, []string{"raw", "seedfile", "redis", "postgres"}) {
		dir := filepath.Join(all, p.Name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		fmt.Fprintf(c.Progress, "filling %s with %d records and killing it …\n", p.Name, n)
		t := task{Peer: p.Name, Dir: dir, Durability: peer.OS, Size: c.Size, Records: n}
		filler, _, err := start(ctx, &fillJob{t})
		if err != nil {
			return nil, fmt.Errorf("fill %s: %w", p.Name, err)
		}
		filler.End()
		// The kill came in the midst of a write. A peer that does not open after that has no time to compare.
		if _, err := reopenOnce(ctx, t); err != nil {
			if p.Name == peer.Ringfence || ctx.Err() != nil {
				return nil, err
			}
			fmt.Fprintf(c.Progress, "%s is left out: it does not open after kill -9 in the midst of a write: %v\n", p.Name, err)
			continue
		}
		game.Add(measure.Entry{Name: p.Name, Turn: func(*measure.Histogram) (float64, error) { return reopenOnce(ctx, t) }})
	}
	if err := game.Run(c.Rounds); err != nil {
		return nil, err
	}
	return game.Rows(), nil
}

// reopenOnce lets a process open the store, and kills it; all acknowledged records have to be there.
func reopenOnce(ctx context.Context, t task) (float64, error) {
	p, a, err := start(ctx, &reopenJob{t})
	if err != nil {
		return 0, err
	}
	p.End()
	if a.Count < t.Records {
		return 0, fmt.Errorf("%d of %d acknowledged records are there after kill -9", a.Count, t.Records)
	}
	return float64(a.Elapsed) / float64(time.Millisecond), nil
}

// open opens the store of a child's task.
func (t *task) open(ctx context.Context) (peer.Store, error) {
	found, err := peer.Named([]string{t.Peer})
	if err != nil {
		return nil, err
	}
	return found[0].Open(ctx, peer.Options{Dir: t.Dir, Durability: t.Durability, InFlight: 1, KeepAll: true})
}

// fillJob writes the records, says so, and writes on until it is killed.
type fillJob struct{ task }

func (j *fillJob) Run(ctx context.Context, t *harness.Talk) error {
	s, err := j.open(ctx)
	if err != nil {
		return err
	}
	st, ok := s.(peer.Streamer)
	if !ok {
		return fmt.Errorf("%s has no way to pipeline", j.Peer)
	}
	if _, err := st.Stream(ctx, payload(j.Size), window, upTo(j.Records)); err != nil {
		return err
	}
	if f, ok := s.(peer.Flusher); ok {
		if err := f.Flush(); err != nil {
			return err
		}
	}
	if err := t.Say(answer{}); err != nil {
		return err
	}
	_, err = st.Stream(ctx, payload(j.Size), 16, func() bool { return ctx.Err() != nil })
	return err
}

// reopenJob opens the store, counts, appends one record, tells how long that took, and waits to be
// killed.
type reopenJob struct{ task }

func (j *reopenJob) Run(ctx context.Context, t *harness.Talk) error {
	began := time.Now()
	s, err := j.open(ctx)
	if err != nil {
		return err
	}
	c, ok := s.(peer.Counter)
	if !ok {
		return fmt.Errorf("%s does not count its records", j.Peer)
	}
	n, err := c.Count(ctx)
	if err != nil {
		return err
	}
	add, err := s.Appender()
	if err != nil {
		return err
	}
	err = add(ctx, [][]byte{payload(j.Size)})
	if err = errors.Join(err, t.Say(answer{Count: n, Elapsed: time.Since(began)})); err != nil {
		return err
	}
	t.Hear()
	return nil
}
