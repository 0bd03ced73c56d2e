package benchkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
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
	Records    int   `default:"10000000" least:"50" usage:"records to consume; a tenth of them is measured too"`
	Partitions []int `default:"1,16,64" usage:"active partitions of an open log"`
}

func (c *memory) measure(ctx context.Context, r *run) {
	c.enterConsumer(ctx, r)
	for _, n := range c.Partitions {
		c.enterLog(ctx, r, n)
	}
	r.play()
	r.done("the most private memory (RssAnon) of a process, the Go runtime included, %s", measure.Many(r.Rounds, "round"))
}

// enterConsumer enters a consumer's memory early and late in one run over all records.
func (c *memory) enterConsumer(ctx context.Context, r *run) {
	job := memoryJob{Dir: r.dir + "/consumer", Records: c.Records}
	check(measure.Try(func(s *measure.Script) {
		r.fillKeys(ctx, Stores{}.open(ctx, s, job.Dir, ringfence.OS), "bench", 1, c.Records, func(i int) string { return fmt.Sprintf("key-%d", i%1000) })
	}))
	runs := 0
	var last memoryUse
	fresh := false // last was not asked by both rows yet
	turn := func(what func() int64) func(*measure.Turn) float64 {
		return func(*measure.Turn) float64 {
			if fresh = !fresh; fresh {
				runs++
				job.Group = fmt.Sprintf("group-%d", runs)
				r.once(ctx, &job, &last)
			}
			return mib(what())
		}
	}
	records := measure.Many(c.Records, "record")
	early := r.Add(measure.Entry{Name: fmt.Sprintf("Consume %s, in the second tenth", records), Unit: "MiB", Turn: turn(func() int64 { return last.Early })})
	r.Add(measure.Entry{Name: "the same run, in the last tenth", Unit: "MiB", To: early, Kind: "memory late", Args: []any{records}, Turn: turn(func() int64 { return last.Late })})
}

func (c *memory) enterLog(ctx context.Context, r *run, partitions int) {
	r.enterSizes([]int{max(partitions, c.Records/50), max(partitions, c.Records/5)}, func(n int) measure.Entry {
		active, records := measure.Many(partitions, "active partition"), measure.Many(n, "record")
		job := memoryJob{Dir: fmt.Sprintf("%s/log-%d-%d", r.dir, partitions, n), Partitions: partitions, For: r.For}
		r.fillDir(ctx, job.Dir, partitions, n, 100)
		return measure.Entry{Name: fmt.Sprintf("open log, %s, %s", active, records), Unit: "MiB", Kind: "memory open", Args: []any{active, records}, Size: partitions,
			Turn: func(*measure.Turn) float64 {
				var use memoryUse
				r.once(ctx, &job, &use)
				return mib(use.Most)
			}}
	})
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
func (u *memoryUse) look(handled, records int64) {
	n := memoryOf(private)
	u.Most = max(u.Most, n)
	switch {
	case records == 0:
	case handled >= records/10 && handled < records/5:
		u.Early = max(u.Early, n)
	case handled >= records-records/10:
		u.Late = max(u.Late, n)
	}
}

// Run tells what it used, when it is done.
func (j *memoryJob) Run(ctx context.Context, t *harness.Talk) error {
	return measure.Try(func(s *measure.Script) {
		var use memoryUse
		watched := s.Beside(ctx, func(ctx context.Context) error {
			return measure.Try(func(*measure.Script) {
				measure.Pace(ctx, 5*time.Millisecond, math.MaxInt, func(int) { use.look(j.handled.Load(), int64(j.Records)) })
			})
		})
		if j.Group != "" {
			j.consume(ctx, s)
		} else {
			j.use(ctx, s)
		}
		check(watched())
		// Of a run too short to be sampled in each tenth, the whole stands for its parts.
		check(t.Say(memoryUse{use.Most, cmp.Or(use.Early, use.Most), cmp.Or(use.Late, use.Most)}))
	})
}

func (j *memoryJob) consume(ctx context.Context, s *measure.Script) {
	rf := Stores{}.open(ctx, s, j.Dir, ringfence.OS)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	check(rf.Consume(ctx, "bench", j.Group, func(context.Context, *ringfence.Message) error {
		if j.handled.Add(1) == int64(j.Records) {
			cancel()
		}
		return nil
	}, nil))
}

// use appends to every partition each millisecond and reads each from its beginning on, all at the
// same time.
func (j *memoryJob) use(ctx context.Context, s *measure.Script) {
	t := openTopic(ctx, s, j.Dir, j.Partitions)
	running, cancel := context.WithTimeout(ctx, j.For)
	defer cancel()
	recs := []commitlog.Record{{Value: make([]byte, 100)}}
	measure.Together(2*j.Partitions, func(i int) {
		if p := i / 2; i%2 == 0 {
			measure.Pace(running, time.Millisecond, math.MaxInt, func(int) { must(t.Append(ctx, p, recs, nil)) })
		} else {
			follow(running, t, p)
		}
	})
}

// follow reads until ctx ends.
func follow(ctx context.Context, t *commitlog.Topic, partition int) {
	r := t.NewReader(partition, 0, &commitlog.ReaderOptions{Reuse: true})
	for {
		_, err := r.Next(ctx)
		if err != nil && errors.Is(err, ctx.Err()) {
			return
		}
		check(err)
	}
}

const (
	private  = "RssAnon:" // no part of a file: pages of the log that are mapped belong to the page cache
	resident = "VmRSS:"   // all of it, the pages of the program and of the log among it
)

// memoryOf is the memory of this process, in bytes: what is private, or resident.
func memoryOf(what string) (bytes int64) {
	for line := range strings.Lines(string(must(os.ReadFile("/proc/self/status")))) {
		if n, ok := strings.CutPrefix(line, what); ok {
			must(fmt.Sscan(n, &bytes))
		}
	}
	return bytes << 10
}
