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
)

// MemoryConfig says what to measure; zero fields have defaults.
type MemoryConfig struct {
	Common
	Records    int   // of the larger backlog, of 100 bytes each; default 10,000,000
	Partitions []int // of the logs that are opened; default 1, 16, 64
}

const (
	memoryTopic = "memory"
	memoryFlat  = 1.25 // the larger backlog, or the end of a run, may take so many times the memory
	logBase     = 10   // MiB of a process with an open log
	logEach     = 1    // and for each partition that is written and read
)

// Memory measures the private memory of whole processes: of a consumer with the default settings
// early and late in a run, and of an open log that is written and read in all of its partitions,
// with a backlog of a fifth of the records and with a tenth of that.
func Memory(ctx context.Context, c MemoryConfig) (*Result, error) {
	c.Common = c.Common.withDefaults()
	setDefault(&c.Records, 10_000_000)
	if len(c.Partitions) == 0 {
		c.Partitions = []int{1, 16, 64}
	}
	var d demand
	d.that(c.Records >= 50, "--records is %d; expected 50 or more", c.Records)
	for _, n := range c.Partitions {
		d.positive("--partitions", n)
	}
	d.that(len(c.Command) > 0, "memory needs a program to start")
	d.errs = append(d.errs, c.none("memory"))
	if err := errors.Join(d.errs...); err != nil {
		return nil, err
	}
	dir, remove, err := c.tempDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	game := contest{rest: c.rest}
	if err := c.enterConsumer(ctx, &game, dir); err != nil {
		return nil, err
	}
	for _, n := range c.Partitions {
		if err := c.enterLog(ctx, &game, dir, n); err != nil {
			return nil, err
		}
	}
	rows, figures, err := game.run(c.Rounds, c.Logf)
	if err != nil {
		return nil, err
	}
	return &Result{Bench: "memory", Rows: rows, Figures: figures,
		About: fmt.Sprintf("the most private memory (RssAnon) of a process, the Go runtime included, %s", many(c.Rounds, "round"))}, nil
}

// enterConsumer enters a consumer's memory early and late in one run over all records.
func (c *MemoryConfig) enterConsumer(ctx context.Context, game *contest, dir string) error {
	job := memoryJob{Dir: dir + "/consumer", Records: c.Records}
	if err := c.fillTopic(ctx, job.Dir, c.Records); err != nil {
		return err
	}
	round := 0
	var last message
	fresh := false // last was not asked by both rows yet
	run := func() (message, error) {
		if fresh = !fresh; !fresh {
			return last, nil
		}
		round++
		job.Group = fmt.Sprintf("group-%d", round)
		var err error
		last, err = c.once(ctx, job)
		return last, err
	}
	early := fmt.Sprintf("Consume %s, in the second tenth", many(c.Records, "record"))
	game.add(early, "MiB", "", 1, func(*histogram) (float64, error) {
		m, err := run()
		return mib(m.Early), err
	})
	e := game.add("the same run, in the last tenth", "MiB", early, 1, func(*histogram) (float64, error) {
		m, err := run()
		return mib(m.Late), err
	})
	e.ratioAtMost(fmt.Sprintf("memory of a consumer of %s, late of early", many(c.Records, "record")), memoryFlat)
	return nil
}

func (c *MemoryConfig) enterLog(ctx context.Context, game *contest, dir string, partitions int) error {
	few := ""
	for _, n := range []int{c.Records / 50, c.Records / 5} {
		n = max(n, partitions)
		job := memoryJob{Dir: fmt.Sprintf("%s/log-%d-%d", dir, partitions, n), Partitions: partitions, For: c.For}
		c.Logf("writing %s to %s", many(n, "record"), many(partitions, "partition"))
		if err := fillDir(ctx, job.Dir, memoryTopic, partitions, n, 100); err != nil {
			return err
		}
		name := fmt.Sprintf("open log, %s, %s", many(partitions, "active partition"), many(n, "record"))
		e := game.add(name, "MiB", few, 1, func(*histogram) (float64, error) {
			m, err := c.once(ctx, job)
			return mib(m.Bytes), err
		})
		if few != "" {
			e.atMost("memory of an open log with "+many(partitions, "active partition"), float64(logBase+partitions*logEach))
			e.ratioAtMost(fmt.Sprintf("memory of an open log with %s and %s, of that with a tenth of them", many(partitions, "active partition"), many(n, "record")), memoryFlat)
		}
		few = name
	}
	return nil
}

// fillTopic makes a topic of one partition that Consume can read.
func (c *MemoryConfig) fillTopic(ctx context.Context, dir string, records int) (err error) {
	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: dir, Durability: ringfence.OS})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	fill := ConsumeConfig{Common: c.Common, Records: records, Size: 100, Keys: 1000}
	return fill.fill(ctx, rf, memoryTopic, 1, 1000)
}

// once runs a process that watches itself.
func (c *MemoryConfig) once(ctx context.Context, job memoryJob) (message, error) {
	a, err := c.startAgent(ctx, task{Memory: &job})
	if err != nil {
		return message{}, err
	}
	defer a.kill()
	return a.next()
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// memoryJob is a process that watches its own memory: a consumer with Group, else an open log.
type memoryJob struct {
	Dir        string
	Group      string
	Records    int
	Partitions int
	For        time.Duration
}

// watched is the most memory that a process had: ever, and in the tenths of the records that are
// compared.
type watched struct {
	handled           atomic.Int64 // records so far
	most, early, late int64        // bytes; the watching goroutine's
}

// look samples the memory.
func (w *watched) look(records int64) error {
	n, err := privateMemory()
	if err != nil {
		return err
	}
	w.most = max(w.most, n)
	switch at := w.handled.Load(); {
	case records == 0:
	case at >= records/10 && at < records/5:
		w.early = max(w.early, n)
	case at >= records-records/10:
		w.late = max(w.late, n)
	}
	return nil
}

func (j *memoryJob) run(ctx context.Context) (message, error) {
	var w watched
	watching, stop := context.WithCancel(ctx)
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() { // joined below
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for failed == nil && watching.Err() == nil {
			<-tick.C
			failed = w.look(int64(j.Records))
		}
	})
	var err error
	if j.Group != "" {
		err = j.consume(ctx, &w.handled)
	} else {
		err = j.use(ctx)
	}
	stop()
	wg.Wait()
	// Of a run too short to be sampled in each tenth, the whole stands for its parts.
	return message{Bytes: w.most, Early: cmp.Or(w.early, w.most), Late: cmp.Or(w.late, w.most)}, errors.Join(err, failed)
}

func (j *memoryJob) consume(ctx context.Context, n *atomic.Int64) (err error) {
	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: j.Dir, Durability: ringfence.OS})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return rf.Consume(ctx, memoryTopic, j.Group, func(context.Context, *ringfence.Message) error {
		if n.Add(1) == int64(j.Records) {
			cancel()
		}
		return nil
	}, nil)
}

// use appends to every partition and reads each from its beginning on, all at the same time.
func (j *memoryJob) use(ctx context.Context) (err error) {
	log, t, err := openTopic(ctx, j.Dir, memoryTopic, j.Partitions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, j.For)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, 2*j.Partitions)
	for p := range j.Partitions {
		wg.Go(func() { errs[2*p] = write(ctx, t, p) })
		wg.Go(func() { errs[2*p+1] = follow(ctx, t, p) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// write appends every millisecond until ctx ends.
func write(ctx context.Context, t *commitlog.Topic, partition int) error {
	recs := []commitlog.Record{{Value: make([]byte, 100)}}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := t.Append(context.WithoutCancel(ctx), partition, recs, nil); err != nil {
			return err
		}
	}
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
