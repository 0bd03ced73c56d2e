package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/vfs"
)

// halt stops one process at its nth file system operation, in whatever it holds then. All its
// later operations stop, too, until release; then they go on, or fail when it was killed.
type halt struct {
	at      int64
	kill    func(*vfs.Op) // nil: it is only stopped
	told    *history      // of the process
	reached chan struct{}
	release chan struct{}
	once    sync.Once
}

func newHalt(at int64, kill func(*vfs.Op)) *halt {
	return &halt{at: at, kill: kill, reached: make(chan struct{}), release: make(chan struct{})}
}

func (h *halt) hook(op *vfs.Op) error {
	if op.Count < h.at {
		return nil
	}
	h.once.Do(func() {
		if h.kill != nil {
			h.told.killFirst()
			h.kill(op)
		}
		close(h.reached)
	})
	<-h.release
	if h.kill != nil {
		return errGone
	}
	return nil
}

// pair is two processes on one machine: a will be halted, b is a bystander with an open handle.
type pair struct {
	mem  *vfs.Mem
	a, b *workload
	log  *commitlog.Log // of b
	t    *commitlog.Topic
	done chan error // a has ended
}

func newPair(ctx context.Context, seed uint64, level driver.Durability, h *halt, mem *vfs.Mem) (*pair, error) {
	p := &pair{mem: mem, done: make(chan error, 1)}
	bystander := mem.Process()
	p.a, p.b = newWorkload(seed, vfs.Inject(mem, h.hook)), newWorkload(seed+1, bystander)
	p.a.level, p.b.level, p.b.writers, p.b.h = level, level, 2, p.a.h
	h.told = p.a.h
	var err error
	if p.log, err = openAt(ctx, bystander, level); err != nil {
		return nil, err
	}
	if err = p.log.CreateTopic(ctx, commitlog.TopicConfig{Name: topicName, Partitions: partitions}); err != nil {
		return nil, err
	}
	p.a.h.created = true
	if p.t, err = p.log.Topic(ctx, topicName); err != nil {
		return nil, err
	}
	go func() { p.done <- p.a.run(ctx) }() // joined by finish
	return p, nil
}

// finish releases a and waits for it.
func (p *pair) finish(h *halt) error {
	close(h.release)
	err := <-p.done
	if cerr := p.log.Close(); err == nil {
		err = cerr
	}
	return err
}

// A process is killed at each of its operations. The others go on at once, and nothing that it
// was told is lost, at either level of durability.
func TestAProcessKilledAtEveryOperation(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	for i, level := range []driver.Durability{driver.Sync, driver.OS} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			each(t, positions(uint64(i), 60), func(at int64) error {
				if err := killAt(ctx, level, at); err != nil {
					return fmt.Errorf("killed at operation %d: %w", at, err)
				}
				return nil
			})
		})
	}
}

// positions are operations to halt a process at: all of the first, a sample of the others.
func positions(seed uint64, n int) []int64 {
	rng := rand.New(rand.NewPCG(seed, 2))
	var list []int64
	for at := int64(1); len(list) < soak(n, 20*n); at += 1 + rng.Int64N(int64(soak(6, 1))) {
		list = append(list, at)
	}
	return list
}

func killAt(ctx context.Context, level driver.Durability, at int64) (err error) {
	mem := vfs.NewMem(uint64(at))
	h := newHalt(at, func(op *vfs.Op) {
		if op.Kind == vfs.OpWrite && at%3 > 0 { // in the middle of the write, or right behind it
			writeBy(mem.Process(), op, op.Length/int(at%3))
		}
		mem.Kill()
	})
	p, err := newPair(ctx, uint64(at), level, h, mem)
	if err != nil {
		return err
	}
	defer p.finish(h) // the error of the killed process does not matter
	for dead := false; !dead; {
		select {
		case <-h.reached:
			dead = true
		case err := <-p.done: // it had fewer operations
			p.done <- err
			return err
		default:
		}
		if _, err := p.b.send(ctx, p.t, []*attempt{p.b.h.begin(3, int(at)%partitions, 8)}); err != nil && p.sealed() == nil {
			return fmt.Errorf("the bystander's append: %w", err)
		}
	}
	before := p.a.h.snapshot()
	var images []*image
	for level == driver.Sync && len(images) < 2 {
		images = append(images, &image{disk: mem.Crash(), before: before, after: before.snapshot()})
	}
	c := p.mem.Process()
	if err := before.snapshot().verify(ctx, func() (*commitlog.Log, error) { return openAt(ctx, c, level) }, before, true); err != nil {
		return err
	}
	for _, i := range images {
		if err := i.verify(ctx); err != nil {
			return fmt.Errorf("then a power loss: %w", err)
		}
	}
	return nil
}

// writeBy does the first n bytes of another process's write.
func writeBy(fsys vfs.FS, op *vfs.Op, n int) {
	f, err := fsys.OpenFile(op.Name, os.O_RDWR, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteAt(op.Data[:n], op.Offset)
	_ = f.Close()
}

// sealed is the ends of the seal that a sends at its end, when it did.
func (p *pair) sealed() []int64 {
	s := p.a.h.snapshot()
	if s.sealing {
		return []int64{}
	}
	return nil
}

// A process is stopped at one of its operations, with all that it holds, and goes on later.
// Nobody breaks anything meanwhile; who needs what it holds waits for it.
func TestAProcessStoppedForAWhile(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	for i, level := range []driver.Durability{driver.Sync, driver.OS} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			each(t, positions(uint64(10+i), 25), func(at int64) error {
				if err := stopAt(ctx, level, at); err != nil {
					return fmt.Errorf("stopped at operation %d: %w", at, err)
				}
				return nil
			})
		})
	}
}

func stopAt(ctx context.Context, level driver.Durability, at int64) error {
	mem := vfs.NewMem(uint64(at))
	h := newHalt(at, nil)
	p, err := newPair(ctx, uint64(at), level, h, mem)
	if err != nil {
		return err
	}
	select {
	case <-h.reached:
	case err := <-p.done:
		p.done <- err
		return p.finish(h)
	}
	// As many appends as the stopped process lets through in a while; then it wakes up.
	ended := make(chan error, 1)
	go func() {
		for range 10 {
			if _, err := p.b.send(ctx, p.t, []*attempt{p.b.h.begin(3, int(at)%partitions, 5000)}); err != nil && p.sealed() == nil {
				ended <- fmt.Errorf("the bystander's append: %w", err)
				return
			}
		}
		ended <- nil
	}()
	while := time.NewTimer(60 * time.Millisecond) // longer than the patience with a sync leader
	defer while.Stop()
	select {
	case err = <-ended:
		ended <- nil
	case <-while.C:
	}
	if ferr := p.finish2(h, ended); err == nil {
		err = ferr
	}
	if err != nil {
		return err
	}
	before := p.a.h.snapshot()
	c := p.mem.Process()
	if err := before.snapshot().verify(ctx, func() (*commitlog.Log, error) { return openAt(ctx, c, level) }, before, false); err != nil {
		return err
	}
	if level == driver.OS {
		return nil
	}
	i := &image{disk: p.mem.Crash(), before: before, after: before.snapshot()}
	return i.verify(ctx)
}

// finish2 is finish, with the bystander's appends ended before its log is closed.
func (p *pair) finish2(h *halt, ended <-chan error) error {
	close(h.release)
	err := <-p.done
	if berr := <-ended; err == nil {
		err = berr
	}
	if cerr := p.log.Close(); err == nil {
		err = cerr
	}
	return err
}
