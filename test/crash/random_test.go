package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Histories of a topic at random: two processes at either level append, roll, trim, are closed and
// killed; writes and syncs fail; the machine loses its power, or its file system is mounted anew with
// pages older than its disk, also in the middle of something. Nothing is damaged, so nobody may be
// told of damage, what was acknowledged stays, and no offset is given out twice.
//
// RINGFENCE_SEED=7 runs that history alone, RINGFENCE_SEED=1000-1999 those.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	each(t, seedsFor(t), func(seed uint64) error {
		h := newRandomHistory(seed)
		err := h.run(ctx)
		h.end()
		if err != nil {
			return fmt.Errorf("seed %d, after %s: %w", seed, strings.Join(h.steps, ", "), err)
		}
		return nil
	})
}

// seedsFor are those of RINGFENCE_SEED, or some.
func seedsFor(t *testing.T) (seeds []uint64) {
	t.Helper()
	from, to := uint64(0), uint64(soak(150, 20_000))-1
	if asked := os.Getenv("RINGFENCE_SEED"); asked != "" {
		low, high, ok := strings.Cut(asked, "-")
		if !ok {
			high = low
		}
		var bad [2]error
		from, bad[0] = strconv.ParseUint(low, 10, 64)
		to, bad[1] = strconv.ParseUint(high, 10, 64)
		must(t, errors.Join(bad[:]...))
	}
	for seed := from; seed <= to; seed++ {
		seeds = append(seeds, seed)
	}
	return seeds
}

// randomHistory is one machine, or the ones that follow it after crashes.
type randomHistory struct {
	rng   *rand.Rand
	book  *ledger
	mem   *vfs.Mem
	procs [2]*proc // nil: not running
	steps []string

	left  atomic.Int64 // operations until the machine is gone; 0: it stays
	mu    sync.Mutex
	next  *vfs.Mem // what is left of it then
	mount bool     // it is mounted anew, not started anew
}

// proc is a process that has the topic open.
type proc struct {
	h     *randomHistory
	fs    *vfs.Mem
	level driver.Durability
	log   *commitlog.Log
	topic *commitlog.Topic
	fails atomic.Int64 // the next writes and syncs of segments that fail
}

func newRandomHistory(seed uint64) *randomHistory {
	return &randomHistory{rng: rand.New(rand.NewPCG(seed, 17)), book: newLedger(), mem: vfs.NewMem(seed)}
}

func (h *randomHistory) run(ctx context.Context) error {
	if err := h.open(ctx, 0); err != nil {
		return err
	}
	for range 10 + h.rng.IntN(50) {
		if err := h.step(ctx); err != nil {
			return err
		}
	}
	h.end()
	return h.last(ctx)
}

// last looks at what is left when nobody has the topic open.
func (h *randomHistory) last(ctx context.Context) error {
	h.note("end")
	if err := h.open(ctx, 0); err != nil {
		return err
	}
	h.end()
	return unharmed(ctx, h.mem)
}

func (h *randomHistory) note(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, args...))
}

func (h *randomHistory) step(ctx context.Context) error {
	i := h.rng.IntN(2)
	p := h.procs[i]
	if p == nil {
		return h.open(ctx, i)
	}
	switch n := h.rng.IntN(100); {
	case n < 55:
		h.append(ctx, i, p)
	case n < 64:
		h.trim(ctx, i, p, h.rng.IntN(2) == 0)
	case n < 68: // what little is left is on the disk, and the page may be older than all of it
		h.trim(ctx, i, p, true)
		h.mount = h.rng.IntN(2) == 0
		h.crash()
	case n < 74:
		p.fails.Store(int64(1 + h.rng.IntN(2)))
		h.note("%d fails %d", i, p.fails.Load())
	case n < 80:
		h.note("close %d", i)
		p.fails.Store(0)
		h.procs[i] = nil
		if err := p.log.Close(); err != nil && !h.gone() {
			return fmt.Errorf("close: %w", err)
		}
	case n < 85:
		h.note("kill %d", i)
		h.procs[i] = nil
		p.kill()
	case n < 91:
		return h.audit(ctx, i, p)
	default:
		h.mount = h.rng.IntN(2) == 0
		switch n := h.rng.IntN(40); {
		case n < 10:
			h.crash()
		default:
			h.left.Store(int64(n - 9))
		}
	}
	return h.survive(ctx)
}

// open starts a process, at either level, and looks at what it finds.
func (h *randomHistory) open(ctx context.Context, i int) error {
	p := &proc{h: h, fs: h.mem.Process(), level: driver.Sync}
	if h.rng.IntN(2) == 0 {
		p.level = driver.OS
	}
	h.note("open %d at %s", i, p.level)
	err := p.open(ctx)
	h.procs[i] = p
	if h.gone() {
		return h.survive(ctx)
	}
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return h.audit(ctx, i, p)
}

func (h *randomHistory) audit(ctx context.Context, i int, p *proc) error {
	h.note("%d looks", i)
	p.fails.Store(0)
	err := h.book.audit(ctx, p.topic, p.level)
	if h.gone() {
		return h.survive(ctx)
	}
	return err
}

// append sends some records at once.
func (h *randomHistory) append(ctx context.Context, i int, p *proc) {
	n := 1 + h.rng.IntN(5)
	h.note("%d appends %d", i, n)
	var wg sync.WaitGroup
	for range n {
		e := h.book.begin(h.rng.IntN(partitions), sizes[h.rng.IntN(len(sizes))])
		wg.Add(1)
		p.topic.AppendAsync(ctx, e.partition, []commitlog.Record{{Value: []byte(e.value)}}, nil, func(first int64, err error) {
			h.book.answered(e, first, err, p.level)
			wg.Done()
		})
	}
	wg.Wait()
}

// trim drops all of the topic, or some of a partition. A trim that fails harms nobody.
func (h *randomHistory) trim(ctx context.Context, i int, p *proc, all bool) {
	only := h.rng.IntN(partitions)
	h.note("%d trims %d, all %v", i, only, all)
	for partition := range partitions {
		b, err := p.topic.Bounds(ctx, partition)
		if err != nil || !all && partition != only {
			continue
		}
		before := b.Next
		if !all {
			before = b.First + h.rng.Int64N(b.Next-b.First+1)
		}
		h.book.trimming(partition, before)
		_ = p.topic.Trim(ctx, partition, before)
	}
}

// gone tells whether the machine is.
func (h *randomHistory) gone() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next != nil
}

// crash ends the machine and its processes.
func (h *randomHistory) crash() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next != nil {
		return
	}
	h.book.freeze()
	if h.mount {
		h.next = h.mem.CrashSameBoot()
	} else {
		h.next = h.mem.Crash()
	}
}

// survive goes on with what is left of a machine that is gone.
func (h *randomHistory) survive(ctx context.Context) error {
	if !h.gone() {
		return nil
	}
	h.note("the machine is gone (mounted anew: %v)", h.mount)
	for i, p := range h.procs {
		if p != nil {
			p.kill()
			h.procs[i] = nil
		}
	}
	h.left.Store(0)
	h.mem, h.next = h.next, nil
	h.book.lose()
	if err := unharmed(ctx, h.mem); err != nil {
		return err
	}
	return h.open(ctx, h.rng.IntN(2))
}

// end closes all.
func (h *randomHistory) end() {
	h.left.Store(0)
	for i, p := range h.procs {
		if p != nil && p.log != nil {
			p.fails.Store(0)
			_ = p.log.Close()
		}
		h.procs[i] = nil
	}
}

func (p *proc) open(ctx context.Context) (err error) {
	if p.log, err = openAt(ctx, vfs.Inject(p.fs, p.hook), p.level); err != nil {
		return err
	}
	if err := p.log.CreateTopic(ctx, commitlog.TopicConfig{Name: topicName, Partitions: partitions}); err != nil {
		return err
	}
	p.topic, err = p.log.Topic(ctx, topicName)
	return err
}

func (p *proc) kill() {
	p.fs.Kill()
	if p.log != nil {
		_ = p.log.Close()
	}
}

// hook makes operations fail, and the machine go away before one.
func (p *proc) hook(op *vfs.Op) error {
	if op.Kind.Changes() && p.h.left.Load() > 0 && p.h.left.Add(-1) == 0 {
		p.h.crash()
	}
	if op.Kind == vfs.OpClose || op.Kind == vfs.OpUnlock {
		return nil
	}
	if p.h.gone() {
		return errGone
	}
	if (op.Kind == vfs.OpWrite || op.Kind == vfs.OpSync) && strings.HasSuffix(op.Name, ".seg") && p.fails.Load() > 0 && p.fails.Add(-1) >= 0 {
		return syscall.EIO
	}
	return nil
}
