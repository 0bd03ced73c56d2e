package benchkit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
)

// ProduceConfig says what to measure; zero fields have defaults.
type ProduceConfig struct {
	Common
	InFlight   []int             // appends under way at once, in all processes together; default 1, 16, 256
	Async      int               // window of one goroutine that does not wait; default 4,096; negative: none
	Partitions int               // default 1; the appends are spread evenly
	Size       int               // bytes of a value; default 100
	Batch      int               // records of one append; default 1
	Durability driver.Durability // default sync
	Processes  int               // default 1
}

func (c ProduceConfig) withDefaults() (ProduceConfig, error) {
	c.Common = c.Common.withDefaults()
	if len(c.InFlight) == 0 {
		c.InFlight = []int{1, 16, 256}
	}
	setDefault(&c.Async, 4096)
	setDefault(&c.Partitions, 1)
	setDefault(&c.Size, 100)
	setDefault(&c.Batch, 1)
	setDefault(&c.Processes, 1)
	setDefault(&c.Durability, driver.Sync)
	var d demand
	for _, n := range c.InFlight {
		d.positive("--in-flight", n)
		d.that(n >= c.Processes, "--in-flight %d is less than --processes %d", n, c.Processes)
	}
	d.positive("--partitions", c.Partitions)
	d.positive("--size", c.Size)
	d.positive("--batch", c.Batch)
	d.positive("--processes", c.Processes)
	d.that(c.Processes == 1 || len(c.Command) > 0, "--processes needs a program to start")
	return c, errors.Join(d.errs...)
}

// Produce measures appends through commitlog on a file log against raw synced writes.
func Produce(ctx context.Context, c ProduceConfig) (_ *Result, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
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
	const rawName = "raw 4 KiB write + fdatasync"
	var game contest
	game.add(rawName, "writes/s", "", 1, func(h *histogram) (float64, error) { return raw.measure(c.For, h) })
	for _, n := range c.InFlight {
		c.enter(ctx, &game, rawName, produceJob{Dir: dir + "/data", Partitions: c.Partitions, InFlight: n, Size: c.Size, Batch: c.Batch, Durability: c.Durability, For: c.For})
	}
	if c.Async > 0 && c.Processes == 1 {
		job := produceJob{Dir: dir + "/data", Partitions: c.Partitions, InFlight: c.Async, Async: true, Size: c.Size, Batch: c.Batch, Durability: c.Durability, For: c.For}
		game.add(fmt.Sprintf("one goroutine, window %d", c.Async), "records/s", rawName, 1, func(h *histogram) (float64, error) {
			return c.measure(ctx, job, h)
		})
	}
	rows, err := game.run(c.Rounds, c.Logf)
	if err != nil {
		return nil, err
	}
	return &Result{Bench: "produce", Rows: rows, About: fmt.Sprintf("%d-byte values, %d an append, %d partitions, %d processes, durability %s, %d rounds of %s taken in turn",
		c.Size, c.Batch, c.Partitions, c.Processes, c.Durability, c.Rounds, c.For)}, nil
}

// enter adds the rows of one number of appends in flight: with several partitions or processes, one
// of each is measured too, and is what the ratio is to.
func (c *ProduceConfig) enter(ctx context.Context, game *contest, rawName string, job produceJob) {
	n, to, scale := job.InFlight, rawName, 1.0
	if n <= 16 {
		scale = float64(n)
	}
	if c.Partitions > 1 || c.Processes > 1 {
		one, alone := *c, job
		one.Processes, alone.Partitions = 1, 1
		if n == c.Processes { // one in flight in each
			alone.InFlight, scale = 1, 1
		}
		to = fmt.Sprintf("%d in flight, one partition, one process", alone.InFlight)
		game.add(to, "records/s", rawName, scale, func(h *histogram) (float64, error) { return one.measure(ctx, alone, h) })
		scale = 1
	}
	game.add(fmt.Sprintf("%d in flight", n), "records/s", to, scale, func(h *histogram) (float64, error) { return c.measure(ctx, job, h) })
}

// measure runs one job, in this process or split over several.
func (c *ProduceConfig) measure(ctx context.Context, job produceJob, h *histogram) (float64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if c.Processes == 1 {
		out, err := job.run(ctx, nil)
		h.merge(out.Latency)
		return out.PerSecond, err
	}
	var agents []*agent
	defer func() {
		for _, a := range agents {
			a.kill()
		}
	}()
	for i := range c.Processes {
		part := job
		part.InFlight = job.InFlight/c.Processes + btoi(i < job.InFlight%c.Processes)
		a, err := startAgent(ctx, c.Command, task{Produce: &part})
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

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// produceJob is what one process does.
type produceJob struct {
	Dir        string
	Partitions int
	InFlight   int
	Async      bool
	Size       int
	Batch      int
	Durability driver.Durability
	For        time.Duration
}

// run produces for a while. With ready it says that it is set up and waits for the start.
func (j *produceJob) run(ctx context.Context, ready func() error) (out message, err error) {
	log, err := filelog.Open(ctx, filelog.Config{Dir: j.Dir, Options: driver.Options{Durability: j.Durability}})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	name := fmt.Sprintf("bench-%d", j.Partitions)
	if err := log.CreateTopic(ctx, commitlog.TopicConfig{Name: name, Partitions: j.Partitions, RetentionBytes: 256 << 20}); err != nil {
		return out, err
	}
	topic, err := log.Topic(ctx, name)
	if err != nil {
		return out, err
	}
	if ready != nil {
		if err := ready(); err != nil {
			return out, err
		}
	}
	if j.Async {
		return j.stream(ctx, topic)
	}
	return j.callers(ctx, topic)
}

func (j *produceJob) records() []commitlog.Record {
	recs := make([]commitlog.Record, j.Batch)
	value := make([]byte, j.Size)
	for i := range recs {
		recs[i].Value = value
	}
	return recs
}

// callers are goroutines that each wait for their append before the next one.
func (j *produceJob) callers(ctx context.Context, topic *commitlog.Topic) (message, error) {
	var total atomic.Int64
	var wg sync.WaitGroup
	hists, errs := make([]histogram, j.InFlight), make([]error, j.InFlight)
	began := time.Now()
	for i := range j.InFlight {
		wg.Go(func() {
			recs := j.records()
			n := int64(0)
			for last := began; last.Sub(began) < j.For; {
				if _, errs[i] = topic.Append(ctx, i%j.Partitions, recs, nil); errs[i] != nil {
					return
				}
				now := time.Now()
				hists[i].add(now.Sub(last))
				last = now
				n++
			}
			total.Add(n)
		})
	}
	wg.Wait()
	took := time.Since(began)
	var all histogram
	for i := range hists {
		all.merge(hists[i].sparse())
	}
	return message{PerSecond: float64(total.Load()) * float64(j.Batch) / took.Seconds(), Latency: all.sparse()}, errors.Join(errs...)
}

// stream is one goroutine that keeps a window of appends under way.
func (j *produceJob) stream(ctx context.Context, topic *commitlog.Topic) (message, error) {
	window := make(chan struct{}, j.InFlight)
	var failed atomic.Pointer[error]
	done := func(_ int64, err error) {
		if err != nil {
			failed.Store(&err)
		}
		<-window
	}
	// Records must stay untouched until they are stored; these are never touched.
	recs := j.records()
	n, began := 0, time.Now()
	for ; n%64 != 0 || time.Since(began) < j.For; n++ {
		window <- struct{}{}
		topic.AppendAsync(ctx, n%j.Partitions, recs, nil, done)
	}
	for range j.InFlight {
		window <- struct{}{}
	}
	took := time.Since(began)
	if err := failed.Load(); err != nil {
		return message{}, *err
	}
	return message{PerSecond: float64(n) * float64(j.Batch) / took.Seconds()}, nil
}
