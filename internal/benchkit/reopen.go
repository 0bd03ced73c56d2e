package benchkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/measure"
)

// reopen measures how long it takes, after kill -9 of the process that appends, until another one
// has opened the log, knows its end, and has one more record acknowledged. Each turn kills anew.
type reopen struct{ Records, Size int }

func (c *reopen) settings(s *settings) {
	s.rounds("kills for each size of the log, taken in turn")
	s.number(&c.Records, "records", 5_000_000, 10, "records in the log; a tenth of them is measured too")
	s.number(&c.Size, "size", 100, 1, "`bytes` of a record's value")
	s.program("reopen")
}

func (c *reopen) measure(ctx context.Context, r *run) error {
	var few *measure.Entry
	for _, n := range []int{c.Records / 10, c.Records} {
		job := reopenJob{Dir: fmt.Sprintf("%s/%d", r.dir, n), Size: c.Size}
		r.Bench.Logf("writing %s", measure.Many(n, "record"))
		if err := fillDir(ctx, job.Dir, 1, n, c.Size); err != nil {
			return err
		}
		kind := ""
		if few != nil {
			kind = "reopen"
		}
		few = r.Add(measure.Entry{Name: "reopen after kill -9 with " + measure.Many(n, "record"), Unit: "ms", To: few, Kind: kind, Turn: func(*measure.Histogram) (float64, error) {
			return killAndReopen(ctx, r, job)
		}})
	}
	if err := r.play(); err != nil {
		return err
	}
	return r.done("%d-byte values, warm, from Open to the ack of one more record, %s, each after a kill -9 in the middle of appends", c.Size, measure.Many(r.Rounds, "round"))
}

// killAndReopen lets one process append without end, kills it, and times the next one.
func killAndReopen(ctx context.Context, r *run, job reopenJob) (float64, error) {
	var acked, found reopened
	appending := job
	appending.Append = true
	if err := r.once(ctx, &appending, &acked); err != nil {
		return 0, err
	}
	if err := r.once(ctx, &job, &found); err != nil {
		return 0, err
	}
	if found.Count < acked.Count {
		return 0, fmt.Errorf("after kill -9 the log ends at %d; %d records were acknowledged", found.Count, acked.Count)
	}
	return float64(found.Took) / 1e6, nil
}

// fillDir makes the topic in a data directory and appends records to its partitions in turn.
func fillDir(ctx context.Context, dir string, partitions, records, size int) (err error) {
	log, t, err := openTopic(ctx, dir, partitions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return appendAll(ctx, t, records, min(1000, max(1, records/partitions)), func(int) commitlog.Record { return commitlog.Record{Value: make([]byte, size)} })
}

// openTopic opens the log in a directory, and the only topic of a measurement.
func openTopic(ctx context.Context, dir string, partitions int) (*commitlog.Log, *commitlog.Topic, error) {
	log, err := filelog.Open(ctx, filelog.Config{Dir: dir, Options: driver.Options{Durability: driver.OS}})
	if err != nil {
		return nil, nil, err
	}
	err = log.CreateTopic(ctx, commitlog.TopicConfig{Name: "bench", Partitions: partitions})
	if err == nil {
		t, err := log.Topic(ctx, "bench")
		if err == nil {
			return log, t, nil
		}
	}
	return nil, nil, errors.Join(err, log.Close())
}

// reopenJob is a process that opens a log and is killed.
type reopenJob struct {
	Dir    string
	Size   int
	Append bool // go on appending, after having told how far it got
}

// reopened is what it tells: how many records there are or were acknowledged, and how long it took.
type reopened struct {
	Count int64
	Took  time.Duration
}

// Run opens the log, tells, and goes on until it is killed.
func (j *reopenJob) Run(ctx context.Context, t *harness.Talk) (err error) {
	began := time.Now()
	log, topic, err := openTopic(ctx, j.Dir, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	b, err := topic.Bounds(ctx, 0)
	if err != nil {
		return err
	}
	recs := []commitlog.Record{{Value: make([]byte, j.Size)}}
	if _, err := topic.Append(ctx, 0, recs, nil); err != nil {
		return err
	}
	took := time.Since(began)
	if !j.Append {
		err := t.Say(reopened{Count: b.Next, Took: took})
		t.Hear() // until it is killed
		return err
	}
	// It is killed while appends are under way, soon after it has said how many were acknowledged.
	for ctx.Err() == nil && err == nil {
		var first int64
		if first, err = topic.Append(ctx, 0, recs, nil); err == nil && first == b.Next+100 {
			err = t.Say(reopened{Count: first + 1})
		}
	}
	return err
}
