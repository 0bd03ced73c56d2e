package crash

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/vfs"
)

// faultCase is how one operation of one process fails.
type faultCase struct {
	at      int64
	process int
	err     error
	short   bool // writes are cut short
	reads   bool // operations that only read count and fail, too
	times   int64
}

func (c faultCase) String() string {
	return fmt.Sprintf("%d times from operation %d of process %d: %v, short writes %v, reads too %v", c.times, c.at, c.process, c.err, c.short, c.reads)
}

func (c faultCase) hook(failed *string) func(op *vfs.Op) error {
	count := make(chan int64, 1)
	count <- 0
	return func(op *vfs.Op) error {
		if op.Kind == vfs.OpClose || op.Kind == vfs.OpUnlock || !c.reads && !op.Kind.Changes() {
			return nil
		}
		n := <-count + 1
		count <- n
		if n < c.at || n >= c.at+c.times {
			return nil
		}
		if n == c.at {
			*failed = fmt.Sprintf("%s %s", op.Kind, op.Name)
		}
		if c.short && op.Kind == vfs.OpWrite {
			op.Short = op.Length / 2
		}
		return c.err
	}
}

// One operation fails, in either of two processes, wherever it is. Who asked for it gets an error
// that says what became of it, nothing that was acked is lost, and after some retries everybody
// goes on.
func TestAnErrorAtEveryOperation(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	for name, c := range map[string]faultCase{
		"EIO":            {err: syscall.EIO, times: 1},
		"EIO also reads": {err: syscall.EIO, times: 1, reads: true},
		"ENOSPC":         {err: syscall.ENOSPC, times: 1},
		"short writes":   {err: syscall.ENOSPC, times: 3, short: true},
		"EROFS":          {err: syscall.EROFS, times: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cases []faultCase
			for i, at := range positions(uint64(len(name)), 40) {
				c.at, c.process = at, i%2
				cases = append(cases, c)
			}
			each(t, cases, func(c faultCase) error { return failAt(ctx, c) })
		})
	}
}

func failAt(ctx context.Context, c faultCase) error {
	mem := vfs.NewMem(uint64(c.at))
	var failed string
	fss := []vfs.FS{mem, mem.Process()}
	fss[c.process] = vfs.Inject(fss[c.process], c.hook(&failed))
	w := newWorkload(uint64(c.at), fss...)
	w.retry = 10
	if err := w.run(ctx); err != nil {
		return fmt.Errorf("%v (%s): the workload did not get over it: %w", c, failed, err)
	}
	before := w.h.snapshot()
	i := &image{disk: mem.Crash(), before: before, after: before.snapshot()}
	other := mem.Process()
	if err := before.snapshot().verify(ctx, func() (*commitlog.Log, error) { return openOn(ctx, other) }, before, false); err != nil {
		return fmt.Errorf("%v (%s): %w", c, failed, err)
	}
	if err := i.after.verify(ctx, func() (*commitlog.Log, error) { return openOn(ctx, i.disk) }, before, false); err != nil {
		return fmt.Errorf("%v (%s), then a crash: %w", c, failed, err)
	}
	return nil
}

// A sync that fails leaves blocks behind that no later one writes, though it succeeds: the log does
// not go on behind them.
func TestAFailedSyncIsNotBelievedTheSecondTime(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	for seed := range uint64(30) {
		mem := vfs.NewMem(seed)
		var broken atomic.Bool
		l, err := openOn(ctx, vfs.Inject(mem, func(op *vfs.Op) error {
			if op.Kind == vfs.OpSync && broken.Load() {
				return syscall.EIO
			}
			return nil
		}))
		must(t, err)
		topic := created(ctx, t, l)
		w := newWorkload(seed)
		w.h.created = true
		sent := []*attempt{w.h.begin(0, 0, 9000)}
		broken.Store(true)
		if sent, err = w.send(ctx, topic, sent); !errors.Is(err, commitlog.ErrUnknown) {
			t.Fatalf("an append that could not be synced: %v; expected that nobody knows", err)
		}
		broken.Store(false)
		for range 3 {
			_, err := w.send(ctx, topic, append(sent, w.h.begin(1, 0, 3000)))
			must(t, err)
			sent = nil
		}
		before := w.h.snapshot()
		disk := mem.Crash()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := w.h.verify(ctx, func() (*commitlog.Log, error) { return openOn(ctx, disk) }, before, false); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// A producer that repeats itself while its first try is under way hears the same of both.
func TestADuplicateSharesTheFateOfItsOriginal(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	mem := vfs.NewMem(1)
	var broken atomic.Bool
	fsys := vfs.Inject(mem, func(op *vfs.Op) error {
		if op.Kind == vfs.OpSync && broken.Load() {
			return syscall.EIO
		}
		return nil
	})
	l, err := openOn(ctx, fsys)
	must(t, err)
	defer l.Close()
	topic := created(ctx, t, l)
	broken.Store(true)
	a := newHistory().begin(0, 0, 8)
	var wg sync.WaitGroup
	for range 20 {
		wg.Add(1)
		topic.AppendAsync(ctx, 0, a.records(), a.options(), func(first int64, err error) {
			defer wg.Done()
			if err == nil {
				t.Errorf("acked at %d although no sync succeeded", first)
			}
		})
	}
	wg.Wait()
	broken.Store(false)
	if _, err := topic.Append(ctx, 0, a.records(), a.options()); err != nil {
		t.Errorf("the same append after it healed: %v", err)
	}
}

// The disk fills up: appends fail cleanly, what is there can be read, and once there is space
// again everything goes on.
func TestAFullDiskHeals(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	mem := vfs.NewMem(1)
	l, err := openOn(ctx, mem)
	must(t, err)
	defer l.Close()
	topic := created(ctx, t, l)
	mem.SetCapacity(400 << 10)
	h, w := newHistory(), newWorkload(1)
	w.h = h
	h.created = true
	for full := 0; full < 5; {
		failed, err := w.send(ctx, topic, []*attempt{h.begin(1, full%partitions, 9000)})
		if err != nil && !errors.Is(err, commitlog.ErrNotAppended) {
			t.Fatalf("an append to a full disk: %v, %d to repeat; want ErrNotAppended", err, len(failed))
		}
		if err != nil {
			full++
		}
		if len(h.attempts) > 1000 {
			t.Fatal("the disk is never full")
		}
	}
	if err := h.look(ctx, topic, h.snapshot(), false); err != nil {
		t.Fatalf("on a full disk: %v", err)
	}
	mem.SetCapacity(0)
	if err := h.verify(ctx, func() (*commitlog.Log, error) { return openOn(ctx, mem.Process()) }, h.snapshot(), false); err != nil {
		t.Fatalf("when there is space again: %v", err)
	}
	if _, err := topic.Append(ctx, 0, h.begin(1, 0, 10).records(), nil); err != nil {
		t.Errorf("an append through the old handle: %v", err)
	}
}
