package benchkit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/measure"
)

// memory measures the private memory of whole processes: of a consumer with the default settings
// early and late in a run, and of an open log that is written and read in all of its partitions,
// with a backlog of a fifth of the records and with a tenth of that.
type memory struct {
	Records    int
	Partitions []int
}

func (c *memory) settings(s *settings) {
	s.turns()
	s.number(&c.Records, "records", 10_000_000, 50, "records to consume; a tenth of them is measured too")
	s.numbers(&c.Partitions, "partitions", []int{1, 16, 64}, "active partitions of an open log")
	s.program("memory")
}

func (c *memory) measure(ctx context.Context, r *run) error {
	if err := c.enterConsumer(ctx, r); err != nil {
		return err
	}
	for _, n := range c.Partitions {
		if err := c.enterLog(ctx, r, n); err != nil {
			return err
		}
	}
	if err := r.play(); err != nil {
		return err
	}
	return r.done("the most private memory (RssAnon) of a process, the Go runtime included, %s", measure.Many(r.Rounds, "round"))
}

// enterConsumer enters a consumer's memory early and late in one run over all records.
func (c *memory) enterConsumer(ctx context.Context, r *run) error {
	job := memoryJob{Dir: r.dir + "/consumer", Records: c.Records}
	rf, err := Stores{}.open(ctx, job.Dir, ringfence.OS)
	if err != nil {
		return err
	}
	r.Bench.Logf("writing %s to 1 partition", measure.Many(c.Records, "record"))
	err = fillKeys(ctx, rf, "bench", 1, c.Records, func(i int) string { return fmt.Sprintf("key-%d", i%1000) })
	if err := errors.Join(err, rf.Close()); err != nil {
		return err
	}
	runs := 0
	var last memoryUse
	fresh := false // last was not asked by both rows yet
	turn := func(what func() int64) measure.Turn {
		return func(*measure.Histogram) (float64, error) {
			if fresh = !fresh; fresh {
				runs++
				job.Group = fmt.Sprintf("group-%d", runs)
				if err := r.once(ctx, &job, &last); err != nil {
					return 0, err
				}
			}
			return mib(what()), nil
		}
	}
	records := measure.Many(c.Records, "record")
	early := r.Add(measure.Entry{Name: fmt.Sprintf("Consume %s, in the second tenth", records), Unit: "MiB", Turn: turn(func() int64 { return last.Early })})
	r.Add(measure.Entry{Name: "the same run, in the last tenth", Unit: "MiB", To: early, Kind: "memory late", Args: []any{records}, Turn: turn(func() int64 { return last.Late })})
	return nil
}

func (c *memory) enterLog(ctx context.Context, r *run, partitions int) error {
	var few *measure.Entry
	for _, n := range []int{c.Records / 50, c.Records / 5} {
		n = max(n, partitions)
		active, records := measure.Many(partitions, "active partition"), measure.Many(n, "record")
		job := memoryJob{Dir: fmt.Sprintf("%s/log-%d-%d", r.dir, partitions, n), Partitions: partitions, For: r.For}
		r.Bench.Logf("writing %s to %s", records, measure.Many(partitions, "partition"))
		if err := fillDir(ctx, job.Dir, partitions, n, 100); err != nil {
			return err
		}
		kind := ""
		if few != nil {
			kind = "memory open"
		}
		few = r.Add(measure.Entry{Name: fmt.Sprintf("open log, %s, %s", active, records), Unit: "MiB", To: few, Kind: kind, Args: []any{active, records}, Size: partitions,
			Turn: func(*measure.Histogram) (float64, error) {
				var use memoryUse
				err := r.once(ctx, &job, &use)
				return mib(use.Most), err
			}})
	}
	return nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// memoryJob is a process that watches its own memory: a consumer with Group, else an open log.
type memoryJob struct {
	Dir        string
	Group      string
	Records    int
	Partitions int
	For        time.Duration

	handled atomic.Int64 // records so far
}

// memoryUse is the most memory that a process had, in bytes: ever, and in the tenths of the records
// that are compared.
type memoryUse struct{ Most, Early, Late int64 }

// look samples the memory.
func (u *memoryUse) look(handled, records int64) error {
	n, err := privateMemory()
	u.Most = max(u.Most, n)
	switch {
	case records == 0:
	case handled >= records/10 && handled < records/5:
		u.Early = max(u.Early, n)
	case handled >= records-records/10:
		u.Late = max(u.Late, n)
	}
	return err
}

// Run tells what it used, when it is done.
func (j *memoryJob) Run(ctx context.Context, t *harness.Talk) error {
	var use memoryUse
	watching, stop := context.WithCancel(ctx)
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() { // joined below
		failed = measure.Pace(watching, 5*time.Millisecond, 1<<62, func(int) error { return use.look(j.handled.Load(), int64(j.Records)) })
	})
	var err error
	if j.Group != "" {
		err = j.consume(ctx)
	} else {
		err = j.use(ctx)
	}
	stop()
	wg.Wait()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	// Of a run too short to be sampled in each tenth, the whole stands for its parts.
	return t.Say(memoryUse{use.Most, cmp.Or(use.Early, use.Most), cmp.Or(use.Late, use.Most)})
}

func (j *memoryJob) consume(ctx context.Context) (err error) {
	rf, err := Stores{}.open(ctx, j.Dir, ringfence.OS)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return rf.Consume(ctx, "bench", j.Group, func(context.Context, *ringfence.Message) error {
		if j.handled.Add(1) == int64(j.Records) {
			cancel()
		}
		return nil
	}, nil)
}

// use appends to every partition each millisecond and reads each from its beginning on, all at the
// same time.
func (j *memoryJob) use(ctx context.Context) (err error) {
	log, t, err := openTopic(ctx, j.Dir, j.Partitions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, j.For)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, 2*j.Partitions)
	recs := []commitlog.Record{{Value: make([]byte, 100)}}
	for p := range j.Partitions {
		wg.Go(func() {
			errs[2*p] = measure.Pace(ctx, time.Millisecond, 1<<62, func(int) error {
				_, err := t.Append(context.WithoutCancel(ctx), p, recs, nil)
				return err
			})
		})
		wg.Go(func() { errs[2*p+1] = follow(ctx, t, p) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// follow reads until ctx ends.
func follow(ctx context.Context, t *commitlog.Topic, partition int) error {
	r := t.NewReader(partition, 0, &commitlog.ReaderOptions{Reuse: true})
	var err error
	for err == nil {
		_, err = r.Next(ctx)
	}
	if errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// privateMemory is the memory of this process that is no part of a file, in bytes: pages of the log
// that are mapped belong to the page cache.
func privateMemory() (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	var kib int64
	if _, rest, ok := bytes.Cut(b, []byte("RssAnon:")); ok {
		_, err = fmt.Sscan(string(rest), &kib)
	}
	return kib << 10, err
}
