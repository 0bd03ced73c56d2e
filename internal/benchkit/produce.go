package benchkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/measure"
)

// produce measures appends through commitlog against raw synced writes.
type produce struct {
	InFlight   []int
	Async      int
	Partitions []int
	Size       int
	Batch      int
	Processes  int
}

func (p *produce) settings(s *settings) {
	s.turns()
	s.numbers(&p.InFlight, "in-flight", []int{1, 16, 256}, "appends under way at once, in all processes together")
	s.number(&p.Async, "async", 4096, -1, "`window` of one goroutine that does not wait (-1: leave it out)")
	s.numbers(&p.Partitions, "partitions", []int{1}, "partitions that the appends are spread over, each compared with one")
	s.number(&p.Size, "size", 100, 1, "`bytes` of a record's value")
	s.number(&p.Batch, "batch", 1, 1, "records of one append")
	s.number(&p.Processes, "processes", 1, 1, "producer processes")
	s.also(func() {
		for _, n := range p.InFlight {
			s.that(n >= p.Processes, "--in-flight %d is less than --processes %d", n, p.Processes)
		}
		s.that(p.Processes == 1 || len(s.common.Command) > 0, "--processes needs a program to start")
	})
}

// producing is a run of produce.
type producing struct {
	*produce
	*run
	durability ringfence.Durability
}

// bandwidthSize is the size of records that are compared with the bandwidth of the disk.
const bandwidthSize = 1024

func (p *produce) measure(ctx context.Context, r *run) error {
	m := &producing{p, r, cmp.Or(r.Durability, ringfence.Sync)}
	raw, err := measure.NewRaw(r.dir + "/raw")
	if err != nil {
		return err
	}
	r.later(raw.Close)
	r.later(func() error { return m.removeTopics(ctx) })
	floor := r.Add(measure.Entry{Name: "raw 4 KiB write + fdatasync", Unit: "writes/s", Turn: func(h *measure.Histogram) (float64, error) {
		return raw.Measure(r.For, measure.RawBlock, h)
	}})
	for _, n := range p.InFlight {
		m.enter(ctx, floor, n)
	}
	if p.Async > 0 && p.Processes == 1 {
		m.enterAsync(ctx, raw, floor)
	}
	for _, n := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(p.Partitions), 1)))) {
		if err := m.age(ctx, n); err != nil {
			return err
		}
	}
	if err := r.play(); err != nil {
		return err
	}
	return r.done("%d-byte values, %d an append, %s, durability %s, %s of %s taken in turn",
		p.Size, p.Batch, measure.Many(p.Processes, "process"), m.durability, measure.Many(r.Rounds, "round"), r.For)
}

// removeTopics removes what the jobs produced to, in stores that were named.
func (m *producing) removeTopics(ctx context.Context) error {
	if !m.given() {
		return nil
	}
	rf, err := m.Stores.open(context.WithoutCancel(ctx), m.dir+"/data", m.durability)
	if err != nil {
		return err
	}
	return errors.Join(m.clean(ctx, rf), rf.Close())
}

func (m *producing) job(inFlight, partitions int) produceJob {
	return produceJob{Dir: m.dir + "/data", Partitions: partitions, InFlight: inFlight, Size: m.Size, Batch: m.Batch, Durability: m.durability, For: m.For, at: m.Stores}
}

// add enters a job; what it promises, it promises of durable records.
func (m *producing) add(ctx context.Context, kind, name string, to *measure.Entry, scale float64, processes int, job produceJob) *measure.Entry {
	if m.durability != ringfence.Sync {
		kind = ""
	}
	return m.Add(measure.Entry{Name: name, Unit: "records/s", To: to, Scale: scale, Kind: kind, Args: []any{m.Size}, Turn: func(h *measure.Histogram) (float64, error) {
		return m.once(ctx, processes, job, h)
	}})
}

// enter adds the rows of one number of appends in flight. With several partitions or processes, one
// of each is measured too, and is what their ratio is to.
func (m *producing) enter(ctx context.Context, floor *measure.Entry, n int) {
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
		name := fmt.Sprintf("%d in flight, %s", n, measure.Many(partitions, "partition"))
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

// enterAsync adds the rows of the goroutine that does not wait. Large records are compared with
// the bandwidth of synced writes.
func (m *producing) enterAsync(ctx context.Context, raw *measure.Raw, to *measure.Entry) {
	kind := ""
	if m.Size >= bandwidthSize {
		kind = "produce large"
		to = m.Add(measure.Entry{Name: "raw 1 MiB writes + fdatasync, in records", Unit: "records/s", Turn: func(h *measure.Histogram) (float64, error) {
			writes, err := raw.Measure(m.For, measure.RawLarge, h)
			return writes * measure.RawLarge / float64(m.Size), err
		}})
	}
	for _, partitions := range m.Partitions {
		job := m.job(m.Async, partitions)
		job.Async = true
		name := fmt.Sprintf("one goroutine, window %d", m.Async)
		if slices.Max(m.Partitions) > 1 {
			name += ", " + measure.Many(partitions, "partition")
		}
		m.add(ctx, kind, name, to, 1, 1, job)
	}
}

// age writes what a log would hold after some minutes of use: one that has dropped segments has
// some to use again.
func (m *producing) age(ctx context.Context, partitions int) error {
	job := produceJob{Dir: m.dir + "/data", Partitions: partitions, InFlight: 1024, Async: true, Size: 4096, Batch: 1, Durability: ringfence.OS, For: 2 * m.For, at: m.Stores}
	m.Bench.Logf("writing segments to use again, %s", measure.Many(partitions, "partition"))
	return job.produce(ctx, nil, new(produced))
}

// once runs one job, in this process or split over several.
func (m *producing) once(ctx context.Context, processes int, job produceJob, h *measure.Histogram) (total float64, err error) {
	var out produced
	if processes == 1 {
		err := job.produce(ctx, nil, &out)
		h.Merge(&out.Latency)
		return out.PerSecond, errors.Join(err, ctx.Err())
	}
	var agents []*harness.Child
	defer func() {
		for _, a := range agents {
			a.End()
		}
	}()
	for i := range processes {
		part := job
		part.InFlight = (job.InFlight + processes - 1 - i) / processes
		a, err := m.start(ctx, &part)
		if err != nil {
			return 0, err
		}
		agents = append(agents, a)
		if err := a.Hear(&out); err != nil { // it is ready
			return 0, err
		}
	}
	for _, a := range agents {
		if err := a.Tell("go"); err != nil {
			return 0, err
		}
	}
	for _, a := range agents {
		if err := a.Hear(&out); err != nil {
			return 0, err
		}
		total += out.PerSecond
		h.Merge(&out.Latency)
	}
	return total, nil
}

// keepBytes is what is kept of a topic: older segments are used again, as in a log that has run
// for a while.
const keepBytes = 160 << 20

// produceJob is what one process does.
type produceJob struct {
	Dir        string
	Partitions int
	InFlight   int
	Async      bool
	Size       int
	Batch      int
	Durability ringfence.Durability
	For        time.Duration
	at         Stores
}

// produced is what came of it.
type produced struct {
	PerSecond float64
	Latency   measure.Histogram
}

// Run says that it is set up, waits for the start, and tells how it went.
func (j *produceJob) Run(ctx context.Context, t *harness.Talk) error {
	var out produced
	if err := j.produce(ctx, t.Ready, &out); err != nil {
		return err
	}
	return t.Say(&out)
}

func (j *produceJob) produce(ctx context.Context, ready func() error, out *produced) (err error) {
	rf, err := j.at.open(ctx, j.Dir, j.Durability)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	name := fmt.Sprintf("bench-%d", j.Partitions)
	if err := rf.EnsureTopic(ctx, name, ringfence.TopicConfig{Partitions: j.Partitions, RetentionBytes: keepBytes}); err != nil {
		return err
	}
	topic, err := storage(ctx, rf, name)
	if err != nil {
		return err
	}
	if ready != nil {
		if err := ready(); err != nil {
			return err
		}
	}
	// Records must stay untouched until they are stored; these are never touched.
	recs := make([]commitlog.Record, j.Batch)
	value := make([]byte, j.Size)
	for i := range recs {
		recs[i].Value = value
	}
	if j.Async { // one goroutine that keeps a window of appends under way
		w := measure.NewWindow(j.InFlight)
		done := func(_ int64, err error) { w.Leave(err) }
		out.PerSecond, err = w.For(j.For, func(n int) { topic.AppendAsync(ctx, n%j.Partitions, recs, nil, done) })
	} else { // goroutines that each wait for their append before the next one
		out.PerSecond, err = measure.Callers(j.InFlight, j.For, &out.Latency, func(i int) error {
			_, err := topic.Append(ctx, i%j.Partitions, recs, nil)
			return err
		})
	}
	out.PerSecond *= float64(j.Batch)
	return err
}
