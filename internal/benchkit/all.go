package benchkit

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Summary is several results and all of their figures.
type Summary struct {
	Bench   string    `json:"bench"`
	About   string    `json:"about"`
	Figures []Figure  `json:"figures"`
	Results []*Result `json:"results"`
}

// Missed are the figures that are not what is required.
func (s *Summary) Missed() int { return missed(s.Figures) }

// Text prints all results, and the figures once more in one table.
func (s *Summary) Text(w io.Writer) error {
	for _, r := range s.Results {
		if err := r.Text(w); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(w, "bench all: %s\n", s.About); err != nil {
		return err
	}
	if err := writeFigures(w, s.Figures); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "  %d of %d figures are as promised\n", len(s.Figures)-s.Missed(), len(s.Figures))
	return err
}

// AllConfig says how much to measure; zero fields have defaults.
type AllConfig struct {
	Common
	Records int // to consume; reopening and memory take 2.5 and 5 times as many; default 2,000,000
	Kills   int // default 100
}

// All runs every measurement whose figures the project promises.
func All(ctx context.Context, c AllConfig) (*Summary, error) {
	c.Common = c.Common.withDefaults()
	setDefault(&c.Records, 2_000_000)
	setDefault(&c.Kills, 100)
	if err := c.none("all"); err != nil {
		return nil, err
	}
	began := time.Now()
	s := &Summary{Bench: "all"}
	for _, m := range c.measurements() {
		c.Logf("== %s", m.name)
		r, err := m.run(ctx)
		if err != nil {
			return nil, fmt.Errorf("bench %s: %w", m.name, err)
		}
		s.Results = append(s.Results, r)
		s.Figures = append(s.Figures, r.Figures...)
	}
	s.About = fmt.Sprintf("%s of %s each, in %s", many(c.Rounds, "round"), c.For, time.Since(began).Round(time.Second))
	return s, nil
}

type measurement struct {
	name string
	run  func(context.Context) (*Result, error)
}

// measurements are those of one configuration each, with the settings that the promises name.
func (c *AllConfig) measurements() []measurement {
	produce := func(p ProduceConfig) func(context.Context) (*Result, error) {
		p.Common = c.Common
		return func(ctx context.Context) (*Result, error) { return Produce(ctx, p) }
	}
	return []measurement{
		{"produce", produce(ProduceConfig{})},
		{"produce, many partitions", produce(ProduceConfig{InFlight: []int{256}, Partitions: []int{16, 64, 256}, Async: -1})},
		{"produce, several processes", produce(ProduceConfig{InFlight: []int{4, 256}, Processes: 4})},
		{"produce, bandwidth", produce(ProduceConfig{InFlight: []int{}, Size: 1024})},
		{"consume", func(ctx context.Context) (*Result, error) {
			return Consume(ctx, ConsumeConfig{Common: c.Common, Records: c.Records})
		}},
		{"latency", func(ctx context.Context) (*Result, error) { return Latency(ctx, LatencyConfig{Common: c.Common}) }},
		{"reopen", func(ctx context.Context) (*Result, error) {
			return Reopen(ctx, ReopenConfig{Common: c.Common, Records: c.Records / 2 * 5})
		}},
		{"failover", func(ctx context.Context) (*Result, error) {
			return Failover(ctx, FailoverConfig{Common: c.Common, Kills: c.Kills, Leaves: max(1, c.Kills/5)})
		}},
		{"registry", func(ctx context.Context) (*Result, error) { return Registry(ctx, RegistryConfig{Common: c.Common}) }},
		{"ring", func(ctx context.Context) (*Result, error) { return Ring(ctx, RingConfig{Common: c.Common}) }},
		{"route", func(ctx context.Context) (*Result, error) { return Route(ctx, RouteConfig{Common: c.Common}) }},
		{"assign", func(ctx context.Context) (*Result, error) { return Assign(ctx, AssignConfig{Common: c.Common}) }},
		{"switch", func(ctx context.Context) (*Result, error) { return Switch(ctx, SwitchConfig{Common: c.Common}) }},
		{"idle", func(ctx context.Context) (*Result, error) { return Idle(ctx, IdleConfig{Common: c.Common}) }},
		{"memory", func(ctx context.Context) (*Result, error) {
			return Memory(ctx, MemoryConfig{Common: c.Common, Records: c.Records * 5})
		}},
	}
}
