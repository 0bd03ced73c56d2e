package benchkit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/measure"
)

// all runs every measurement whose figures the project promises, with the settings that the promises name.
type all struct{ Records, Kills int }

func (a *all) settings(s *settings) {
	s.turns()
	s.number(&a.Records, "records", 2_000_000, 1, "records to consume; reopening takes 2.5, memory 5 times as many")
	s.number(&a.Kills, "kills", 100, 1, "consumer processes to kill")
}

func (a *all) measure(ctx context.Context, r *run) error {
	began := time.Now()
	for _, part := range []struct {
		name string
		measurement
	}{
		{"produce", &produce{}},
		{"produce, many partitions", &produce{InFlight: []int{256}, Partitions: []int{16, 64, 256}, Async: -1}},
		{"produce, several processes", &produce{InFlight: []int{4, 256}, Processes: 4}},
		{"produce, bandwidth", &produce{InFlight: []int{}, Size: 1024}},
		{"consume", &consume{Records: a.Records}},
		{"latency", &latency{}},
		{"reopen", &reopen{Records: a.Records / 2 * 5}},
		{"failover", &failover{Kills: a.Kills, Leaves: max(1, a.Kills/5)}},
		{"failover, parked", &failover{Kills: max(1, a.Kills/5), Leaves: -1, Parked: 10_000}},
		{"deliver", &deliver{Records: max(1, a.Records/2), Parked: max(1, a.Records/20)}},
		{"reshard", &reshards{}},
		{"outage", &outages{}},
		{"registry", &checkpoints{}},
		{"ring", &rings{}},
		{"route", &routes{}},
		{"assign", &assignors{}},
		{"switch", &switches{}},
		{"idle", &idle{}},
		{"memory", &memory{Records: a.Records * 5}},
	} {
		r.Bench.Logf("== %s", part.name)
		name, _, _ := strings.Cut(part.name, ",")
		b := &Bench{Name: name, Common: r.Common, measurement: part.measurement}
		b.Durability = ""
		res, err := b.Run(ctx)
		if err != nil {
			return fmt.Errorf("bench %s: %w", part.name, err)
		}
		r.res.Results = append(r.res.Results, res)
		r.res.Figures = append(r.res.Figures, res.Figures...)
	}
	return r.done("%s of %s each, in %s", measure.Many(r.Rounds, "round"), r.For, time.Since(began).Round(time.Second))
}
