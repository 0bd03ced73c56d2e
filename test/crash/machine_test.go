package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// soak multiplies the size of the matrix.
func soak(ci, long int) int {
	if os.Getenv("RINGFENCE_SOAK") == "1" {
		return long
	}
	return ci
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(soak(9, 300))*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func openOn(ctx context.Context, fsys vfs.FS) (*commitlog.Log, error) {
	return openAt(ctx, fsys, driver.Sync)
}

func openAt(ctx context.Context, fsys vfs.FS, d driver.Durability) (*commitlog.Log, error) {
	return filelog.Open(ctx, filelog.Config{FS: fsys, SegmentBytes: filelog.MinSegmentBytes, Options: driver.Options{Durability: d}})
}

// created makes the topic of the tests in a log.
func created(ctx context.Context, t *testing.T, l *commitlog.Log) *commitlog.Topic {
	t.Helper()
	must(t, l.CreateTopic(ctx, commitlog.TopicConfig{Name: topicName, Partitions: partitions}))
	topic, err := l.Topic(ctx, topicName)
	must(t, err)
	return topic
}

// workload is a few dozen appends of two processes that take turns, enough to fill some
// segments, with a trim and a seal.
type workload struct {
	h     *history
	rng   *rand.Rand
	steps int
	fss   []vfs.FS // one for each process
	retry int      // how often an operation that failed is repeated
	level driver.Durability
	// writers are the first of two writers of this workload: 0 and 1, or 2 and 3.
	writers int
}

func newWorkload(seed uint64, fss ...vfs.FS) *workload {
	return &workload{h: newHistory(), rng: rand.New(rand.NewPCG(seed, 1)), steps: 24, fss: fss, level: driver.Sync}
}

var sizes = []int{8, 8, 8, 200, 3000, 9000, 20000}

// run does all of it. Operations that fail are repeated as often as retry says, then given up;
// it returns the first error that the fault does not explain.
func (w *workload) run(ctx context.Context) error {
	topics := make([]*commitlog.Topic, len(w.fss))
	for i, fsys := range w.fss {
		var l *commitlog.Log
		if err := w.again(func() (err error) { l, err = openAt(ctx, fsys, w.level); return err }); err != nil {
			return fmt.Errorf("open: %w", err)
		}
		defer l.Close()
		if i == 0 {
			if err := w.again(func() error {
				return l.CreateTopic(ctx, commitlog.TopicConfig{Name: topicName, Partitions: partitions})
			}); err != nil {
				return fmt.Errorf("create the topic: %w", err)
			}
			w.h.set(func(h *history) { h.created = true })
		}
		if err := w.again(func() (err error) { topics[i], err = l.Topic(ctx, topicName); return err }); err != nil {
			return fmt.Errorf("open the topic: %w", err)
		}
	}
	for step := range w.steps {
		if err := w.step(ctx, topics[w.rng.IntN(len(topics))]); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if step == w.steps/2 || step == w.steps*3/4 {
			w.trim(ctx, topics[0])
		}
	}
	return w.seal(ctx, topics[len(topics)-1])
}

func (w *workload) again(f func() error) (err error) {
	for range w.retry + 1 {
		if err = f(); err == nil {
			return nil
		}
	}
	return err
}

// step sends a few appends at once and waits for their answers.
func (w *workload) step(ctx context.Context, t *commitlog.Topic) error {
	var sent []*attempt
	for range 1 + w.rng.IntN(4) {
		writer := w.writers + w.rng.IntN(2)
		sent = append(sent, w.h.begin(writer, w.rng.IntN(partitions), sizes[w.rng.IntN(len(sizes))]))
	}
	for try := 0; ; try++ {
		failed, err := w.send(ctx, t, sent)
		switch {
		case len(failed) == 0:
			return nil
		case try == w.retry:
			return err
		}
		sent = failed
	}
}

// send tries appends together; it returns those to repeat, in their order.
func (w *workload) send(ctx context.Context, t *commitlog.Topic, sent []*attempt) ([]*attempt, error) {
	var wg sync.WaitGroup
	var last error
	for _, a := range sent {
		wg.Add(1)
		t.AppendAsync(ctx, a.partition, a.records(), a.options(), func(first int64, err error) {
			w.h.end(a, first, err)
			if err != nil {
				w.h.set(func(*history) { last = err })
			}
			wg.Done()
		})
	}
	wg.Wait()
	var failed []*attempt
	for _, a := range sent {
		if !a.acked && idempotent(a.writer) {
			failed = append(failed, a)
		}
	}
	return failed, last
}

// trim drops most of what is there, so that segments are freed and used again.
func (w *workload) trim(ctx context.Context, t *commitlog.Topic) {
	for p := range partitions {
		b, err := t.Bounds(ctx, p)
		if err != nil {
			return
		}
		before := max(b.First, b.Next-1)
		w.h.set(func(h *history) { h.trims[p] = before })
		_ = w.again(func() error { return t.Trim(ctx, p, before) }) // a trim that fails harms nobody
	}
}

func (w *workload) seal(ctx context.Context, t *commitlog.Topic) error {
	w.h.set(func(h *history) { h.sealing = true })
	var ends []int64
	if err := w.again(func() (err error) { ends, err = t.Seal(ctx); return err }); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	w.h.set(func(h *history) {
		if !h.killed {
			h.ends = ends
		}
	})
	return nil
}

// image is what a crash left, and the histories around it.
type image struct {
	disk   *vfs.Mem
	before *history // told before the crash
	after  *history // tried until after it
	where  string
}

// camera takes images of a machine: after a power loss, and after its file system was mounted anew
// within one boot, in turn.
type camera struct {
	mu     sync.Mutex
	images []*image
	anew   bool
}

func (c *camera) shoot(mem *vfs.Mem, h *history, where string) {
	before := h.snapshot() // in this order: an ack that is seen here is older than the crash
	crash := mem.Crash
	c.mu.Lock()
	if c.anew = !c.anew; c.anew {
		crash, where = mem.CrashSameBoot, where+", mounted anew"
	}
	c.mu.Unlock()
	disk := crash()
	after := h.snapshot()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images = append(c.images, &image{disk: disk, before: before, after: after, where: where})
}

// verify checks what is there, and before anybody opens it: a check of the files tells of no damage.
func (i *image) verify(ctx context.Context) error {
	if err := unharmed(ctx, i.disk); err != nil {
		return fmt.Errorf("%s: %w", i.where, err)
	}
	return i.after.verify(ctx, func() (*commitlog.Log, error) { return openOn(ctx, i.disk) }, i.before, true)
}

// unharmed is an error when a check of the files finds damage. What a power loss took behind the last
// promise is none.
func unharmed(ctx context.Context, disk vfs.FS) error {
	report, err := filelog.Inspect(ctx, filelog.Config{FS: disk}, nil)
	if errors.Is(err, fault.NotFound) {
		return nil // the crash was before anything was made
	}
	if err != nil {
		return fmt.Errorf("check the files: %w", err)
	}
	for _, t := range report.Topics {
		if len(t.Damage) > 0 {
			return fmt.Errorf("a check of the files calls what no fault harmed damaged: %+v", t.Damage)
		}
	}
	return nil
}

// each runs f over items on two goroutines and reports the first few failures.
func each[T any](t *testing.T, items []T, f func(T) error) {
	t.Helper()
	next := make(chan T)
	var wg sync.WaitGroup
	var mu sync.Mutex
	failures := 0
	for range 2 {
		wg.Go(func() {
			for item := range next {
				if err := f(item); err != nil {
					mu.Lock()
					if failures++; failures <= 5 {
						t.Error(err)
					}
					mu.Unlock()
				}
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	wg.Wait()
	if failures > 5 {
		t.Errorf("and %d more", failures-5)
	}
}

var errGone = errors.New("this process is gone")
