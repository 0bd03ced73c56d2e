package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/internal/script"
)

// DemoConfig is the settings of a demo.
type DemoConfig struct {
	Site
	Partitions int
	Consumers  int
	Messages   int

	// Daemon makes the command line of a daemon, as Command does that of a process.
	Daemon func() (binary string, args, env []string)
	Forget bool // of the endpoint: see Spec
	// Of a test of deliveries: what takes a server away and brings it back, and by how many partitions the topic grows.
	Restart []func()
	Grow    []int

	Out     io.Writer                    // nil: nothing is shown
	Control func(sequence string) string // makes Out pass on a sequence for a terminal; nil: no colours
}

// DemoOutcome is what came of any demo.
type DemoOutcome struct {
	Seconds    float64  `json:"seconds"`
	Produced   int64    `json:"produced"`
	Delivered  int64    `json:"delivered"`
	Duplicated int64    `json:"duplicated"`
	Lost       int64    `json:"lost"`
	Reordered  int64    `json:"reordered"`
	Broken     []string `json:"broken"` // promises; empty: all were kept
}

// patience is how long a demo waits without any progress for what takes milliseconds.
const patience = time.Minute

// stage is where a story happens: the crew, the narrator, which produces, and the screen.
type stage struct {
	*DemoConfig
	*crew
	screen  screen
	outcome DemoOutcome

	own      *os.File // the history of the narrator
	writer   *history.Writer
	sequence map[string]int64 // of each key, the number of its last record
	produced int
}

// tell opens the stage, plays the scenes, and shows the verdict. What was made goes, unless it is to stay.
func tell(ctx context.Context, c *DemoConfig, topic, group string, play func(*stage), verdict func(*stage, *history.Report)) (out DemoOutcome, err error) {
	crew, err := openCrew(ctx, &c.Site, topic, group)
	if err != nil {
		return out, err
	}
	crew.look = 5 * time.Millisecond
	st := &stage{
		DemoConfig: c, crew: crew, screen: screen{w: c.Out, control: c.Control, began: time.Now()},
		outcome: DemoOutcome{Broken: []string{}}, sequence: make(map[string]int64),
	}
	st.own, err = os.OpenFile(filepath.Join(c.Dir, "narrator.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return out, errors.Join(fmt.Errorf("history: %w", err), st.rf.Close())
	}
	st.writer = history.NewWriter(st.own)
	err = script.Try(func(*script.Script) { play(st) })
	st.outcome.Seconds = time.Since(st.screen.began).Seconds()
	st.end()
	err = errors.Join(err, st.own.Close())
	if err == nil {
		err = st.pronounce(verdict)
	}
	remove := st.clear
	if c.Keep {
		remove = st.rf.Close
	}
	return st.outcome, errors.Join(err, remove())
}

// pronounce has the histories judged.
func (st *stage) pronounce(show func(*stage, *history.Report)) error {
	report, _, err := st.judge(true)
	if err != nil {
		return err
	}
	o := &st.outcome
	o.Produced, o.Delivered, o.Duplicated, o.Lost, o.Reordered = report.Produced, report.Delivered, report.Duplicated, report.Lost, report.Reordered
	for _, v := range report.Violations {
		o.Broken = append(o.Broken, v.String())
	}
	show(st, report)
	for _, b := range o.Broken {
		st.screen.say("     %s", b)
	}
	if len(o.Broken) > 0 {
		return fmt.Errorf("%d of them: %w", len(o.Broken), ErrBroken)
	}
	return nil
}

// end kills the workers that are left.
func (c *crew) end() {
	for _, w := range c.workers {
		if w.proc != nil && !w.proc.Ended() {
			_ = w.proc.Kill() // it may have ended by now
			<-w.proc.Done()
		}
	}
}

// produce stores n records, of keys in turn, and tells the history.
func (st *stage) produce(ctx context.Context, n int, keys func(i int) string) {
	const window = 512
	w := make(chan error, window)
	for i := range n + window {
		if answers := i - window; answers >= 0 && answers < n {
			if err := <-w; err != nil {
				check(fmt.Errorf("produce: %w", err))
			}
		}
		if i < n {
			st.send(ctx, keys(st.produced+i), w)
		}
	}
	st.produced += n
}

// send sends the next record of a key, and tells the history before and after.
func (st *stage) send(ctx context.Context, key string, done chan<- error) {
	st.sequence[key]++
	n := st.sequence[key]
	m := ringfence.Message{Key: []byte(key), Value: value(key, n, minSize)}
	e := history.Event{Kind: history.Sent, At: history.Now(), Member: "narrator", Key: history.Key(m.Key), Sequence: n, Value: harness.Fingerprint(m.Key, m.Value)}
	check(st.writer.Add(e))
	st.rf.ProduceAsync(ctx, st.topic, m, nil, func(at ringfence.Position, err error) {
		if err == nil {
			e.Kind, e.At, e.Storage, e.Partition, e.Offset = history.Produced, history.Now(), at.Storage, at.Partition, at.Offset
			err = st.writer.Add(e)
		}
		done <- err // has room for all that are under way
	})
}

func check(err error) { script.Check(err) }

func must[T any](v T, err error) T { return script.Must(v, err) }
