package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/bench/measure"
	"github.com/ringfence/ringfence/bench/peer"
)

const (
	roleFill   = "fill"
	roleReopen = "reopen"

	reopenRecords = 5_000_000
	reopenLimit   = 30.0 // milliseconds, warm
	flatFactor    = 2.0  // the whole backlog may take so many times as long as a tenth of it, and 5 ms
)

// Reopen measures how long a store needs, after kill -9 of the process that wrote it, until it has
// counted its records and taken one more append. Each round kills it again.
func Reopen(ctx context.Context, c Config, emit func(measure.Report) error) error {
	c = c.withDefaults()
	if c.Records == 0 {
		c.Records = reopenRecords
	}
	var own [2]float64
	for i, n := range []int64{c.Records / 10, c.Records} {
		series, err := c.reopenAll(ctx, n)
		if err != nil {
			return err
		}
		r := measure.Compare(fmt.Sprintf("reopen after kill -9 with %d records of %d B, warm", n, c.Size), "ms", true, series, nil, nil)
		own[i] = r.Rows[0].Median
		if i == 1 {
			r.Bounds = append(r.Bounds, bound("milliseconds", own[1], reopenLimit, true),
				bound("milliseconds, to be flat in the backlog", own[1], flatFactor*own[0]+5, true))
		}
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) reopenAll(ctx context.Context, n int64) (_ []measure.Series, err error) {
	var contestants []measure.Contestant
	var dirs []string
	defer func() {
		for _, dir := range dirs {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	for _, p := range c.available(nil, []string{"raw", "seedfile", "redis", "postgres"}) {
		dir, err := c.folder()
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
		fmt.Fprintf(c.Progress, "filling %s with %d records and killing it …\n", p.Name, n)
		j := job{Role: roleFill, Peer: p.Name, Dir: dir, Durability: peer.OS, Size: c.Size, Records: n}
		if err := c.killAfterAnswer(ctx, j, func(answer) error { return nil }); err != nil {
			return nil, fmt.Errorf("fill %s: %w", p.Name, err)
		}
		j.Role = roleReopen
		// The kill came in the midst of a write. A peer that does not open after that has no time to compare.
		if err := c.killAfterAnswer(ctx, j, complete(n)); err != nil {
			if p.Name == peer.Ringfence || ctx.Err() != nil {
				return nil, err
			}
			fmt.Fprintf(c.Progress, "%s is left out: it does not open after kill -9 in the midst of a write: %v\n", p.Name, err)
			continue
		}
		contestants = append(contestants, measure.Contestant{Name: p.Name, Run: func(ctx context.Context) (measure.Sample, error) {
			var s measure.Sample
			err := c.killAfterAnswer(ctx, j, func(a answer) error {
				s.Value = float64(a.Elapsed) / float64(time.Millisecond)
				return complete(n)(a)
			})
			return s, err
		}})
	}
	return measure.Interleave(ctx, c.Rounds, contestants, c.rest)
}

// complete says that all of n acknowledged records are there.
func complete(n int64) func(answer) error {
	return func(a answer) error {
		if a.Count < n {
			return fmt.Errorf("%d of %d acknowledged records are there after kill -9", a.Count, n)
		}
		return nil
	}
}

func (c Config) killAfterAnswer(ctx context.Context, j job, check func(answer) error) error {
	p, err := spawn(ctx, j)
	if err != nil {
		return err
	}
	a, err := p.hear()
	if err == nil {
		err = check(a)
	}
	return errors.Join(err, p.kill())
}

// openPeer opens the store of a child's job.
func openPeer(ctx context.Context, j job) (peer.Store, error) {
	found, err := peer.Named([]string{j.Peer})
	if err != nil {
		return nil, err
	}
	return found[0].Open(ctx, peer.Options{Dir: j.Dir, Durability: j.Durability, InFlight: 1, KeepAll: true})
}

// fillForever writes the records, says so, and writes on until it is killed.
func fillForever(ctx context.Context, j job, say func(answer) error) error {
	s, err := openPeer(ctx, j)
	if err != nil {
		return err
	}
	st, ok := s.(peer.Streamer)
	if !ok {
		return fmt.Errorf("%s has no way to pipeline", j.Peer)
	}
	var asked atomic.Int64
	if _, err := st.Stream(ctx, payload(j.Size), window, func() bool { return asked.Add(1) > j.Records }); err != nil {
		return err
	}
	if f, ok := s.(peer.Flusher); ok {
		if err := f.Flush(); err != nil {
			return err
		}
	}
	if err := say(answer{Ready: true}); err != nil {
		return err
	}
	_, err = st.Stream(ctx, payload(j.Size), 16, func() bool { return ctx.Err() != nil })
	return err
}

// reopen opens the store, counts, appends one record, tells how long that took, and waits to be killed.
func reopen(ctx context.Context, j job, say func(answer) error) error {
	start := time.Now()
	s, err := openPeer(ctx, j)
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
	if err := add(ctx, [][]byte{payload(j.Size)}); err != nil {
		return err
	}
	if err := say(answer{Count: n, Elapsed: time.Since(start)}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
