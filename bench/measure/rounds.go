package measure

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Sample is what one contestant did in one round.
type Sample struct {
	Value float64       // in the unit of the series: records a second, or milliseconds
	P50   time.Duration // zero: not measured
	P99   time.Duration
}

// Contestant is one thing that is measured.
type Contestant struct {
	Name string
	// Run measures once, for about the length of a round.
	Run func(ctx context.Context) (Sample, error)
}

// Series are the samples of one contestant, in the order of the rounds.
type Series struct {
	Name    string
	Samples []Sample
}

// Median is the sample with the median value; of an even number, the upper of the two.
func (s Series) Median() Sample {
	if len(s.Samples) == 0 {
		return Sample{}
	}
	sorted := slices.Clone(s.Samples)
	slices.SortFunc(sorted, func(a, b Sample) int {
		switch {
		case a.Value < b.Value:
			return -1
		case a.Value > b.Value:
			return 1
		}
		return 0
	})
	return sorted[len(sorted)/2]
}

// Min and Max are the extreme values.
func (s Series) Min() float64 { return s.extreme(slices.Min) }

// Max is the largest value.
func (s Series) Max() float64 { return s.extreme(slices.Max) }

func (s Series) extreme(pick func([]float64) float64) float64 {
	if len(s.Samples) == 0 {
		return 0
	}
	values := make([]float64, len(s.Samples))
	for i, x := range s.Samples {
		values[i] = x.Value
	}
	return pick(values)
}

// Interleave runs rounds in which every contestant has one turn. The order shifts by one from
// round to round, so that nobody always follows the same neighbour; before is called ahead of
// every turn (to let the disk come to rest). One warm-up turn of each is thrown away.
func Interleave(ctx context.Context, rounds int, all []Contestant, before func()) ([]Series, error) {
	series := make([]Series, len(all))
	for round := -1; round < rounds; round++ {
		for turn := range all {
			i := (turn + max(round, 0)) % len(all)
			before()
			sample, err := all[i].Run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", all[i].Name, round+1, err)
			}
			series[i].Name = all[i].Name
			if round >= 0 {
				series[i].Samples = append(series[i].Samples, sample)
			}
		}
	}
	return series, nil
}
