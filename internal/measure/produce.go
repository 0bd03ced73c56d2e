package measure

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/script"
)

// produce measures appends through commitlog against raw synced writes.
type produce struct {
	InFlight, Partitions          []int
	Async, Size, Batch, Processes int
}

func (p *produce) flags(fl *pflag.FlagSet, c *Common) {
	c.turnsVar(fl)
	fl.IntSliceVar(&p.InFlight, "in-flight", []int{1, 16, 256}, "appends under way at once, in all processes together")
	fl.IntSliceVar(&p.Partitions, "partitions", []int{1}, "partitions that the appends are spread over, each compared with one")
	numberVar(fl, &p.Async, "async", 4096, 0, "`window` of one goroutine that does not wait (0: leave it out)")
	numberVar(fl, &p.Size, "size", 100, 1, "`bytes` of a record's value")
	numberVar(fl, &p.Batch, "batch", 1, 1, "records of one append")
	numberVar(fl, &p.Processes, "processes", 1, 1, "producer processes")
}

func (p *produce) demand(d *demands, c *Common) {
	for _, n := range p.Partitions {
		d.that(n >= 1, "--partitions %d: expected 1 or more", n)
	}
	for _, n := range p.InFlight {
		d.that(n >= p.Processes, "--in-flight %d is less than --processes %d", n, p.Processes)
	}
	d.that(p.Processes == 1 || len(c.Command) > 0, "--processes needs a program to start")
}

// producing is a run of produce.
type producing struct {
	*produce
	*run
	durability ringfence.Durability
}

// bandwidthSize is the size of records that are compared with the bandwidth of the disk.
const bandwidthSize = 1024

func (p *produce) measure(ctx context.Context, r *run) {
	m := &producing{p, r, cmp.Or(r.Durability, ringfence.Sync)}
	raw := NewRaw(r.Script, r.dir+"/raw")
	if r.given() {
		r.open(ctx, "/data", m.durability) // removes in the end what the jobs produced to
	}
	floor := r.Add(Entry{Name: "raw 4 KiB write + fdatasync", Unit: "writes/s", Turn: func(t *Turn) float64 {
		return raw.Measure(r.For, RawBlock, &t.Latency)
	}})
	for _, n := range p.InFlight {
		m.enter(ctx, floor, n)
	}
	if p.Async > 0 && p.Processes == 1 {
		m.enterAsync(ctx, raw, floor)
	}
	for _, n := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(p.Partitions), 1)))) {
		m.age(ctx, n)
	}
	r.play()
	r.done("%d-byte values, %d an append, %s, durability %s, %s of %s taken in turn",
		p.Size, p.Batch, Many(p.Processes, "process"), m.durability, Many(r.Rounds, "round"), r.For)
}

func (m *producing) job(inFlight, partitions int) produceJob {
	return produceJob{site: site{m.dir + "/data", m.durability, m.Stores}, Partitions: partitions, InFlight: inFlight, Size: m.Size, Batch: m.Batch, For: m.For}
}

// add enters a job; what it promises, it promises of durable records.
func (m *producing) add(ctx context.Context, kind, name string, to *Entry, scale float64, processes int, job produceJob) *Entry {
	if m.durability != ringfence.Sync {
		kind = ""
	}
	return m.Add(Entry{Name: name, Unit: "records/s", To: to, Scale: scale, Kind: kind, Turn: func(t *Turn) float64 {
		return m.turn(ctx, t, processes, job)
	}})
}

// enter adds the rows of one number of appends in flight; several partitions or processes are compared with one.
func (m *producing) enter(ctx context.Context, floor *Entry, n int) {
	scale := 1.0
	if n <= 16 {
		scale = float64(n)
	}
	if m.Processes == 1 && slices.Max(m.Partitions) == 1 {
		m.add(ctx, fmt.Sprintf("produce %d", n), fmt.Sprintf("%d in flight", n), floor, scale, 1, m.job(n, 1))
		return
	}
	alone := n
	if n == m.Processes { // one in flight in each
		alone, scale = 1, 1
	}
	one := m.add(ctx, "", fmt.Sprintf("%d in flight, one partition, one process", alone), floor, scale, 1, m.job(alone, 1))
	for _, partitions := range m.Partitions {
		name := fmt.Sprintf("%d in flight, %s", n, Many(partitions, "partition"))
		kind := fmt.Sprintf("produce %d over %d", n, partitions)
		switch {
		case partitions == 1 && m.Processes == 1:
			continue // that is the row above
		case m.Processes > 1:
			name += fmt.Sprintf(", %d processes", m.Processes)
			if kind = ""; partitions == 1 {
				kind = fmt.Sprintf("produce %d from %d", n, m.Processes)
			}
		}
		m.add(ctx, kind, name, one, 1, m.Processes, m.job(n, partitions))
	}
}

// enterAsync adds the rows of the goroutine that does not wait; large records are compared with synced bandwidth.
func (m *producing) enterAsync(ctx context.Context, raw *Raw, to *Entry) {
	kind := ""
	if m.Size >= bandwidthSize {
		kind = "produce large"
		to = m.Add(Entry{Name: "raw 1 MiB writes + fdatasync, in records", Unit: "records/s", Turn: func(t *Turn) float64 {
			return raw.Measure(m.For, RawLarge, &t.Latency) * RawLarge / float64(m.Size)
		}})
	}
	for _, partitions := range m.Partitions {
		job := m.job(m.Async, partitions)
		job.Async = true
		name := fmt.Sprintf("one goroutine, window %d", m.Async)
		if slices.Max(m.Partitions) > 1 {
			name += ", " + Many(partitions, "partition")
		}
		m.add(ctx, kind, name, to, 1, 1, job)
	}
}

// age writes what a log holds after minutes of use: segments that were dropped, to use again.
func (m *producing) age(ctx context.Context, partitions int) {
	job := produceJob{site: site{m.dir + "/data", ringfence.OS, m.Stores}, Partitions: partitions, InFlight: 1024, Async: true, Size: 4096, Batch: 1, For: 2 * m.For}
	m.Logf("writing segments to use again, %s", Many(partitions, "partition"))
	script.Check(script.Try(func(s *script.Script) { job.produce(ctx, job.topic(ctx, s), new(Samples)) }))
}

// turn runs one job, in this process or split over several.
func (m *producing) turn(ctx context.Context, t *Turn, processes int, job produceJob) (total float64) {
	if processes == 1 {
		total = job.produce(ctx, job.topic(ctx, t.Script), &t.Latency)
		script.Check(ctx.Err())
		return total
	}
	producers := m.crew(ctx, t.Script, processes, func(i int) harness.Job {
		part := job
		part.InFlight = (job.InFlight + processes - 1 - i) / processes
		return &part
	}, nil)
	producers.ask(ctx, kindReady, -1, nil)
	producers.ask(ctx, kindProduced, -1, func(h heard) {
		total += h.Rate
		t.Latency = append(t.Latency, h.Ages...)
	})
	return total
}

// keepBytes is what is kept of a topic: older segments are used again, as in a log in use.
const keepBytes = 160 << 20

// produceJob is what one process does.
type produceJob struct {
	site
	Partitions int
	InFlight   int
	Async      bool
	Size       int
	Batch      int
	For        time.Duration
}

const (
	kindReady    = "ready"    // answer: all is open
	kindProduced = "produced" // answer, after the time of a turn: how many a second, and how long each took
)

// Run opens the topic, and produces whenever it is asked what it produced.
func (j *produceJob) Run(ctx context.Context, t *harness.Talk) error {
	return script.Try(func(s *script.Script) {
		topic := j.topic(ctx, s)
		for question, ok := t.Hear(); ok; question, ok = t.Hear() {
			e := event{Kind: question}
			if question == kindProduced {
				e.Rate = j.produce(ctx, topic, &e.Ages)
			}
			script.Check(t.Say(&e))
		}
	})
}

func (j *produceJob) topic(ctx context.Context, s *script.Script) *commitlog.Topic {
	rf, name := j.open(ctx, s), fmt.Sprintf("bench-%d", j.Partitions)
	script.Check(rf.EnsureTopic(ctx, name, ringfence.TopicConfig{Partitions: j.Partitions, RetentionBytes: keepBytes}))
	return storage(ctx, s, rf, name)
}

// produce appends for a while, and gives the records a second.
func (j *produceJob) produce(ctx context.Context, topic *commitlog.Topic, h *Samples) (rate float64) {
	// Records must stay untouched until they are stored; these are never touched.
	recs := slices.Repeat([]commitlog.Record{{Value: make([]byte, j.Size)}}, j.Batch)
	if j.Async { // one goroutine that keeps a window of appends under way
		w := NewWindow(j.InFlight)
		done := func(_ int64, err error) { w.Leave(err) }
		rate = w.For(j.For, func(n int) { topic.AppendAsync(ctx, n%j.Partitions, recs, nil, done) })
	} else { // goroutines that each wait for their append before the next one
		rate = Callers(j.InFlight, j.For, h, func(i int) { script.Must(topic.Append(ctx, i%j.Partitions, recs, nil)) })
	}
	return rate * float64(j.Batch)
}
