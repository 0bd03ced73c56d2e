package benchkit

import (
	"context"
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
type reopen struct {
	Records int `default:"5000000" least:"10" usage:"records in the log; a tenth of them is measured too"`
	Size    int `default:"100" usage:"<bytes> of a record's value"`
}

func (c *reopen) measure(ctx context.Context, r *run) {
	r.enterSizes([]int{c.Records / 10, c.Records}, func(n int) measure.Entry {
		job := reopenJob{Dir: fmt.Sprintf("%s/%d", r.dir, n), Size: c.Size}
		r.fillDir(ctx, job.Dir, 1, n, c.Size)
		return measure.Entry{Name: "reopen after kill -9 with " + measure.Many(n, "record"), Unit: "ms", Kind: "reopen", Turn: func(*measure.Turn) float64 {
			return r.killAndReopen(ctx, job)
		}}
	})
	r.play()
	r.done("%d-byte values, warm, from Open to the ack of one more record, %s, each after a kill -9 in the middle of appends", c.Size, measure.Many(r.Rounds, "round"))
}

// enterSizes enters the same for several sizes of a log. What is promised is promised of the later ones, each
// compared with the one before it.
func (r *run) enterSizes(sizes []int, of func(records int) measure.Entry) {
	var few *measure.Entry
	for _, n := range sizes {
		e := of(n)
		if e.To = few; few == nil {
			e.Kind = ""
		}
		few = r.Add(e)
	}
}

// killAndReopen lets one process append without end, kills it, and times the next one.
func (r *run) killAndReopen(ctx context.Context, job reopenJob) float64 {
	var acked, found reopened
	appending := job
	appending.Append = true
	r.once(ctx, &appending, &acked)
	r.once(ctx, &job, &found)
	if found.Count < acked.Count {
		check(fmt.Errorf("after kill -9 the log ends at %d; %d records were acknowledged", found.Count, acked.Count))
	}
	return float64(found.Took) / 1e6
}

// fillDir makes the topic in a data directory and appends records to its partitions in turn.
func (r *run) fillDir(ctx context.Context, dir string, partitions, records, size int) {
	r.Logf("writing %s to %s", measure.Many(records, "record"), measure.Many(partitions, "partition"))
	check(measure.Try(func(s *measure.Script) {
		appendAll(ctx, openTopic(ctx, s, dir, partitions), records, min(1000, max(1, records/partitions)),
			func(int) commitlog.Record { return commitlog.Record{Value: make([]byte, size)} })
	}))
}

// openTopic opens the log in a directory, and the only topic of a measurement.
func openTopic(ctx context.Context, s *measure.Script, dir string, partitions int) *commitlog.Topic {
	log := must(filelog.Open(ctx, filelog.Config{Dir: dir, Options: driver.Options{Durability: driver.OS}}))
	s.Later(log.Close)
	check(log.CreateTopic(ctx, commitlog.TopicConfig{Name: "bench", Partitions: partitions}))
	return must(log.Topic(ctx, "bench"))
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
func (j *reopenJob) Run(ctx context.Context, t *harness.Talk) error {
	return measure.Try(func(s *measure.Script) {
		began := time.Now()
		topic := openTopic(ctx, s, j.Dir, 1)
		next := must(topic.Bounds(ctx, 0)).Next
		recs := []commitlog.Record{{Value: make([]byte, j.Size)}}
		must(topic.Append(ctx, 0, recs, nil))
		took := time.Since(began)
		if !j.Append {
			check(t.Say(reopened{Count: next, Took: took}))
			t.Hear() // until it is killed
			return
		}
		// It is killed while appends are under way, soon after it has said how many were acknowledged.
		for ctx.Err() == nil {
			if first := must(topic.Append(ctx, 0, recs, nil)); first == next+100 {
				check(t.Say(reopened{Count: first + 1}))
			}
		}
	})
}
