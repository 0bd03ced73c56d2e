package benchkit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// ProduceConfig says what to measure; zero fields have defaults.
type ProduceConfig struct {
	Common
	InFlight   []int             // appends under way at once, in all processes together; default 1, 16, 256
	Async      int               // window of one goroutine that does not wait; default 4,096; negative: none
	Partitions []int             // the appends are spread evenly over so many; default 1
	Size       int               // bytes of a value; default 100
	Batch      int               // records of one append; default 1
	Durability driver.Durability // default sync
	Processes  int               // default 1
}

func (c ProduceConfig) withDefaults() (ProduceConfig, error) {
	c.Common = c.Common.withDefaults()
	if c.InFlight == nil {
		c.InFlight = []int{1, 16, 256}
	}
	if len(c.Partitions) == 0 {
		c.Partitions = []int{1}
	}
	setDefault(&c.Async, 4096)
	setDefault(&c.Size, 100)
	setDefault(&c.Batch, 1)
	setDefault(&c.Processes, 1)
	setDefault(&c.Durability, driver.Sync)
	var d demand
	for _, n := range c.InFlight {
		d.positive("--in-flight", n)
		d.that(n >= c.Processes, "--in-flight %d is less than --processes %d", n, c.Processes)
	}
	for _, n := range c.Partitions {
		d.positive("--partitions", n)
	}
	d.positive("--size", c.Size)
	d.positive("--batch", c.Batch)
	d.positive("--processes", c.Processes)
	d.that(c.Processes == 1 || len(c.Command) > 0, "--processes needs a program to start")
	return c, errors.Join(d.errs...)
}

const (
	rawSyncName      = "raw 4 KiB write + fdatasync"
	rawBandwidthName = "raw 1 MiB writes + fdatasync, in records"
)

// produce is a run of Produce.
type produce struct {
	*ProduceConfig
	dir  string
	game contest
}

// Produce measures appends through commitlog against raw synced writes.
func Produce(ctx context.Context, c ProduceConfig) (_ *Result, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	c.Stores = c.apart()
	dir, remove, err := c.tempDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	raw, err := newRawSync(dir + "/raw")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	defer func() { err = errors.Join(err, c.removeTopics(ctx)) }()
	p := &produce{ProduceConfig: &c, dir: dir + "/data", game: contest{rest: c.rest}}
	p.game.add(rawSyncName, "writes/s", "", 1, func(h *histogram) (float64, error) { return raw.measure(c.For, rawBlock, h) })
	for _, n := range c.InFlight {
		p.enter(ctx, n)
	}
	if c.Async > 0 && c.Processes == 1 {
		p.enterAsync(ctx, raw)
	}
	for _, n := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(c.Partitions), 1)))) {
		if err := p.age(ctx, n); err != nil {
			return nil, err
		}
	}
	rows, figures, err := p.game.run(c.Rounds, c.Logf)
	if err != nil {
		return nil, err
	}
	return &Result{Bench: "produce", Rows: rows, Figures: figures, About: fmt.Sprintf("%d-byte values, %d an append, %s, durability %s, %s of %s taken in turn%s",
		c.Size, c.Batch, many(c.Processes, "process"), c.Durability, many(c.Rounds, "round"), c.For, c.about())}, nil
}

// removeTopics removes what the jobs produced to, in stores that were named.
func (c *ProduceConfig) removeTopics(ctx context.Context) (err error) {
	if !c.given() {
		return nil
	}
	dir, remove, err := c.tempDir() // of the store that was not named
	if err != nil {
		return err
	}
	defer remove()
	rf, err := c.open(context.WithoutCancel(ctx), dir, c.Durability)
	if err != nil {
		return err
	}
	return errors.Join(c.clean(ctx, rf), rf.Close())
}

func (p *produce) job(inFlight, partitions int) produceJob {
	return produceJob{Dir: p.dir, Partitions: partitions, InFlight: inFlight, Size: p.Size, Batch: p.Batch, Durability: p.Durability, For: p.For}
}

// enter adds the rows of one number of appends in flight. With several partitions or processes, one
// of each is measured too, and is what their ratio is to.
func (p *produce) enter(ctx context.Context, n int) {
	scale := 1.0
	if n <= 16 {
		scale = float64(n)
	}
	if p.Processes == 1 && slices.Max(p.Partitions) == 1 {
		e := p.row(ctx, fmt.Sprintf("%d in flight", n), rawSyncName, scale, 1, p.job(n, 1))
		p.promiseAlone(e, n)
		return
	}
	alone := n
	if n == p.Processes { // one in flight in each
		alone, scale = 1, 1
	}
	one := p.row(ctx, fmt.Sprintf("%d in flight, one partition, one process", alone), rawSyncName, scale, 1, p.job(alone, 1))
	for _, partitions := range p.Partitions {
		if partitions == 1 && p.Processes == 1 {
			continue // that is the row above
		}
		name := fmt.Sprintf("%d in flight, %s", n, many(partitions, "partition"))
		if p.Processes > 1 {
			name += fmt.Sprintf(", %d processes", p.Processes)
		}
		e := p.row(ctx, name, one.Name, 1, p.Processes, p.job(n, partitions))
		p.promiseSpread(e, one, n, partitions)
	}
}

func (p *produce) row(ctx context.Context, name, to string, scale float64, processes int, job produceJob) *entry {
	return p.game.add(name, "records/s", to, scale, func(h *histogram) (float64, error) { return p.measure(ctx, processes, job, h) })
}

// bandwidthSize is the size of records that are compared with the bandwidth of the disk.
const bandwidthSize = 1024

// enterAsync adds the rows of the goroutine that does not wait. Large records are compared with
// the bandwidth of synced writes.
func (p *produce) enterAsync(ctx context.Context, raw *rawSync) {
	to := rawSyncName
	if p.Size >= bandwidthSize {
		to = rawBandwidthName
		p.game.add(to, "records/s", "", 1, func(h *histogram) (float64, error) {
			writes, err := raw.measure(p.For, rawLarge, h)
			return writes * rawLarge / float64(p.Size), err
		})
	}
	for _, partitions := range p.Partitions {
		job := p.job(p.Async, partitions)
		job.Async = true
		name := fmt.Sprintf("one goroutine, window %d", p.Async)
		if slices.Max(p.Partitions) > 1 {
			name += ", " + many(partitions, "partition")
		}
		e := p.row(ctx, name, to, 1, 1, job)
		if p.Durability == driver.Sync && p.Size >= bandwidthSize {
			e.ratioAtLeast(fmt.Sprintf("durable, records of %d bytes, of the raw bandwidth", p.Size), 0.8)
		}
	}
}

// promiseAlone states what is promised of one partition and one process.
func (p *produce) promiseAlone(e *entry, n int) {
	switch {
	case p.Durability != driver.Sync:
	case n == 1:
		e.ratioAtLeast("durable, 1 in flight, of a raw write + fdatasync", 0.95)
	case n == 16:
		e.ratioAtLeast("durable, 16 in flight, of 16 x a raw write + fdatasync", 0.85)
	}
}

// promiseSpread states what is promised of several partitions or processes, compared with one.
func (p *produce) promiseSpread(e, one *entry, n, partitions int) {
	least := map[int]float64{16: 0.85, 64: 0.75, 256: 0.6}[partitions]
	switch {
	case p.Durability != driver.Sync:
	case p.Processes == 1 && n == 256 && least > 0:
		e.ratioAtLeast(fmt.Sprintf("durable, 256 in flight, %d partitions, of one", partitions), least)
		e.p99AtMost(fmt.Sprintf("durable, 256 in flight, %d partitions, p99 of that of one", partitions), 2, one)
	case p.Processes == 4 && n == 256 && partitions == 1:
		e.ratioAtLeast("durable, 4 processes x 64 in flight, of one with 256", 0.65)
	case p.Processes == 4 && n == 4 && partitions == 1:
		e.ratioAtLeast("durable, 4 processes x 1 in flight, of one with 1", 1.8)
		e.p99AtMost("durable, 4 processes x 1 in flight, p99", 1500, nil)
	}
}

// age writes what a log would hold after some minutes of use: one that has dropped segments has
// some to use again.
func (p *produce) age(ctx context.Context, partitions int) error {
	job := produceJob{Dir: p.dir, Partitions: partitions, InFlight: 1024, Async: true, Size: 4096, Batch: 1, Durability: driver.OS, For: 2 * p.For}
	p.Logf("writing segments to use again, %s", many(partitions, "partition"))
	_, err := job.run(ctx, p.Stores, nil)
	return err
}

// measure runs one job, in this process or split over several.
func (p *produce) measure(ctx context.Context, processes int, job produceJob, h *histogram) (float64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if processes == 1 {
		out, err := job.run(ctx, p.Stores, nil)
		h.merge(out.Latency)
		return out.PerSecond, err
	}
	var agents []*agent
	defer func() {
		for _, a := range agents {
			a.kill()
		}
	}()
	for i := range processes {
		part := job
		part.InFlight = job.InFlight / processes
		if i < job.InFlight%processes {
			part.InFlight++
		}
		a, err := p.startAgent(ctx, task{Produce: &part})
		if err != nil {
			return 0, err
		}
		agents = append(agents, a)
		if _, err := a.next(); err != nil { // it is ready
			return 0, err
		}
	}
	for _, a := range agents {
		if err := a.tell("go"); err != nil {
			return 0, err
		}
	}
	total := 0.0
	for _, a := range agents {
		m, err := a.next()
		if err != nil {
			return 0, err
		}
		total += m.PerSecond
		h.merge(m.Latency)
	}
	return total, nil
}
