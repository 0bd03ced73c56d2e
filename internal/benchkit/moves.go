package benchkit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// rejoin starts a member again and waits for it to get its share by clean moves.
func (f *failover) rejoin(ctx context.Context, i int) error {
	return f.watch(ctx, i, func() error {
		if err := f.crew.start(ctx, i); err != nil {
			return err
		}
		return f.settle(ctx)
	})
}

// leave ends a member cleanly and starts it again.
func (f *failover) leave(ctx context.Context, i int) error {
	waiting := f.of(i)
	err := f.watch(ctx, i, func() error {
		if err := f.crew.members[i].tell("leave"); err != nil {
			return err
		}
		gone := false
		return f.crew.until(ctx, "the partitions of the leaving member", func(h heard) bool {
			if epoch, ok := waiting[h.Partition]; ok && h.Kind == kindFirst && h.Epoch > epoch {
				delete(waiting, h.Partition)
			}
			gone = gone || h.Kind == kindLeft && h.member == i
			return gone && len(waiting) == 0
		})
	})
	if err != nil {
		return err
	}
	f.crew.members[i].kill() // reaps it
	return f.rejoin(ctx, i)
}

// watch looks at the partitions that stay with members other than i while others move: whether
// their worker was interrupted, and the longest time between two records, then and in as long a
// time when nothing moves.
func (f *failover) watch(ctx context.Context, i int, moves func() error) error {
	if err := f.crew.ask(ctx, kindGaps, i, nil); err != nil {
		return err
	}
	before, broken, began := slices.Clone(f.owner), slices.Clone(f.broken), time.Now()
	if err := moves(); err != nil {
		return err
	}
	took := time.Since(began)
	stays := func(p int) bool { return f.owner[p] == before[p] && f.owner[p].member != i }
	gaps := func(to *[]float64) func(heard) {
		return func(h heard) {
			for p, ns := range h.Gaps {
				if stays(p) && f.owner[p].member == h.member {
					*to = append(*to, float64(ns)/1e6)
				}
			}
		}
	}
	if err := f.crew.ask(ctx, kindGaps, i, gaps(&f.stay)); err != nil {
		return err
	}
	for p := range f.owner {
		if stays(p) {
			f.broke = append(f.broke, float64(f.broken[p]-broken[p]))
		}
	}
	if err := f.crew.pass(ctx, took); err != nil {
		return err
	}
	return f.crew.ask(ctx, kindGaps, i, gaps(&f.quiet))
}

func (f *failover) result() *Result {
	r := &Result{Bench: "failover", About: fmt.Sprintf("%s and %s, %s, %d consumer processes, %d records/s, durability %s%s",
		many(f.c.Kills, "kill"), many(max(0, f.c.Leaves), "clean leave"), many(f.c.Partitions, "partition"), f.c.Processes, f.c.Rate, f.c.Durability, f.c.about())}
	add := func(name string, ms []float64) {
		if len(ms) == 0 {
			return
		}
		s := slices.Sorted(slices.Values(ms))
		r.Rows = append(r.Rows, Row{Name: name, Unit: "ms", Rounds: ms, Median: median(ms), Min: s[0], Max: s[len(s)-1],
			P50: 1000 * median(ms), P99: 1000 * quantile(s, 0.99), Worst: 1000 * s[len(s)-1]})
	}
	add("kill -9 to first record of new owner", f.takeover)
	add("kill -9 to the last of its partitions", f.worst)
	add("clean move, last record to first record", f.move)
	add("partition that stays, longest gap while others move", f.stay)
	add("the same partition, as long a time without moves", f.quiet)
	r.Notes = append(r.Notes,
		fmt.Sprintf("a silent member is dead after %s (its session TTL, or lease); a killed one is noticed earlier where the store can", f.c.SessionTTL),
		fmt.Sprintf("a partition gets a record every %s ms, which is part of each figure", figure(1000*float64(f.c.Partitions)/float64(f.c.Rate))))
	r.Figures = append(r.Figures,
		newFigure("kill -9 to first record of the new owner, median", "ms", f.takeover, f.c.promised.median, true),
		tail("kill -9 to first record of the new owner, p99", f.takeover, f.c.promised.p99),
		newFigure("clean move, pause of a moved partition", "ms", f.move, f.c.promised.move, true),
		newFigure("clean moves, records handled twice", "records", []float64{float64(f.repeated)}, 0, true),
		total("clean moves, interruptions of partitions that stay", f.broke))
	return r
}

// tail is a promise about the 99th percentile.
func tail(name string, ms []float64, need float64) Figure {
	f := newFigure(name, "ms", ms, need, true)
	if len(ms) > 0 {
		f.Median = quantile(slices.Sorted(slices.Values(ms)), 0.99)
		f.OK = f.Median <= need
	}
	return f
}

// total promises that nothing was counted, in any of the looks.
func total(name string, counts []float64) Figure {
	if len(counts) == 0 {
		return newFigure(name, "times", nil, 0, true)
	}
	sum := 0.0
	for _, n := range counts {
		sum += n
	}
	return newFigure(fmt.Sprintf("%s (%s)", name, many(len(counts), "look")), "times", []float64{sum}, 0, true)
}

// quantile of sorted values: the smallest that a share q of them does not exceed.
func quantile(sorted []float64, q float64) float64 {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
