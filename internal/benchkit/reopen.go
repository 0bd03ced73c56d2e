package benchkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
)

// ReopenConfig says what to measure; zero fields have defaults.
type ReopenConfig struct {
	Common
	Records int // default 5,000,000
	Size    int // bytes of a value; default 100
}

const (
	reopenTopic = "reopen"
	reopenLimit = 30 // ms, warm
	reopenFlat  = 5  // ms that the whole backlog may take longer than a tenth of it
)

// Reopen measures how long it takes, after kill -9 of the process that appends, until another one
// has opened the log, knows its end, and has one more record acknowledged. Each turn kills anew.
func Reopen(ctx context.Context, c ReopenConfig) (*Result, error) {
	c.Common = c.Common.withDefaults()
	setDefault(&c.Records, 5_000_000)
	setDefault(&c.Size, 100)
	var d demand
	d.that(c.Records >= 10, "--records is %d; expected 10 or more", c.Records)
	d.positive("--size", c.Size)
	d.that(len(c.Command) > 0, "reopen needs a program to start and to kill")
	d.errs = append(d.errs, c.none("reopen"))
	if err := errors.Join(d.errs...); err != nil {
		return nil, err
	}
	dir, remove, err := c.tempDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	game := contest{rest: c.rest}
	var few *entry
	for _, n := range []int{c.Records / 10, c.Records} {
		job := reopenJob{Dir: fmt.Sprintf("%s/%d", dir, n), Records: n, Size: c.Size}
		c.Logf("writing %s", many(n, "record"))
		if err := fillDir(ctx, job.Dir, reopenTopic, 1, n, c.Size); err != nil {
			return nil, err
		}
		name, to := "reopen after kill -9 with "+many(n, "record"), ""
		if few != nil {
			to = few.Name
		}
		e := game.add(name, "ms", to, 1, func(*histogram) (float64, error) { return c.killAndReopen(ctx, job) })
		if few != nil {
			e.atMost(name+", warm", reopenLimit)
			e.longerAtMost(name+", longer than with a tenth of them", reopenFlat, few)
		}
		few = e
	}
	rows, figures, err := game.run(c.Rounds, c.Logf)
	if err != nil {
		return nil, err
	}
	return &Result{Bench: "reopen", Rows: rows, Figures: figures,
		About: fmt.Sprintf("%d-byte values, warm, from Open to the ack of one more record, %s, each after a kill -9 in the middle of appends", c.Size, many(c.Rounds, "round"))}, nil
}

// killAndReopen lets one process append without end, kills it, and times the next one.
func (c *ReopenConfig) killAndReopen(ctx context.Context, job reopenJob) (float64, error) {
	job.Append = true
	m, err := c.once(ctx, job)
	if err != nil {
		return 0, err
	}
	acked := m.Count
	job.Append = false
	if m, err = c.once(ctx, job); err != nil {
		return 0, err
	}
	if m.Count < acked {
		return 0, fmt.Errorf("after kill -9 the log ends at %d; %d records were acknowledged", m.Count, acked)
	}
	return float64(m.Took) / 1e6, nil
}

// once starts a process, hears what it says, and kills it.
func (c *ReopenConfig) once(ctx context.Context, job reopenJob) (message, error) {
	a, err := c.startAgent(ctx, task{Reopen: &job})
	if err != nil {
		return message{}, err
	}
	defer a.kill()
	return a.next()
}

// fillDir makes a topic in a data directory and appends records to its partitions in turn.
func fillDir(ctx context.Context, dir, topic string, partitions, records, size int) (err error) {
	log, t, err := openTopic(ctx, dir, topic, partitions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return appendAll(ctx, t, records, min(1000, max(1, records/partitions)), func(int) commitlog.Record { return commitlog.Record{Value: make([]byte, size)} })
}

func openTopic(ctx context.Context, dir, topic string, partitions int) (*commitlog.Log, *commitlog.Topic, error) {
	log, err := filelog.Open(ctx, filelog.Config{Dir: dir, Options: driver.Options{Durability: driver.OS}})
	if err != nil {
		return nil, nil, err
	}
	if err := log.CreateTopic(ctx, commitlog.TopicConfig{Name: topic, Partitions: partitions}); err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	t, err := log.Topic(ctx, topic)
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	return log, t, nil
}

// appendAll appends so many records, a batch to each partition in turn, record i as make says.
func appendAll(ctx context.Context, t *commitlog.Topic, records, batch int, record func(i int) commitlog.Record) error {
	window := make(chan error, 64)
	for range cap(window) {
		window <- nil
	}
	partitions := t.Config().Partitions
	for at, p := 0, 0; at < records; p = (p + 1) % partitions {
		recs := make([]commitlog.Record, min(batch, records-at))
		for i := range recs {
			recs[i] = record(at + i)
		}
		if err := <-window; err != nil {
			return err
		}
		t.AppendAsync(ctx, p, recs, nil, func(_ int64, err error) { window <- err })
		at += len(recs)
	}
	for range cap(window) {
		if err := <-window; err != nil {
			return err
		}
	}
	return nil
}

// reopenJob is a process that opens a log and is killed.
type reopenJob struct {
	Dir     string
	Records int
	Size    int
	Append  bool // go on appending, after having told how far it got
}

func (j *reopenJob) run(ctx context.Context, say func(message) error, killed func()) error {
	began := time.Now()
	log, t, err := openTopic(ctx, j.Dir, reopenTopic, 1)
	if err != nil {
		return err
	}
	b, err := t.Bounds(ctx, 0)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	recs := []commitlog.Record{{Value: make([]byte, j.Size)}}
	if _, err := t.Append(ctx, 0, recs, nil); err != nil {
		return errors.Join(err, log.Close())
	}
	took := time.Since(began)
	if !j.Append {
		err := say(message{Count: b.Next, Took: took})
		killed()
		return errors.Join(err, log.Close())
	}
	// It is killed while appends are under way, soon after it has said how many were acknowledged.
	for ctx.Err() == nil {
		first, err := t.Append(ctx, 0, recs, nil)
		if err == nil && first == b.Next+100 {
			err = say(message{Count: first + 1})
		}
		if err != nil {
			return errors.Join(err, log.Close())
		}
	}
	return log.Close()
}
