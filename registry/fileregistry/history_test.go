package fileregistry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry/driver"
)

// Histories of a registry at random, on one goroutine: processes come, write, make durable, read, are
// closed and killed; writes and syncs fail, again and again; the machine loses its power, or its file
// system is mounted anew with pages older than its disk. All of it happens in the middle of anything:
// in front of each operation of the file system and of each store to a shared word, another process
// may do something of its own, or the one that is at work is killed, or the power goes. Nothing is
// damaged, so nobody may be told of damage.
//
// RINGFENCE_SEED=7 runs that history alone, RINGFENCE_SEED=1000-1999 those.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	from, to := historySeeds(t)
	const parts = 4
	for part := range parts {
		t.Run(strconv.Itoa(part), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var sum told
				for seed := from + part; seed <= to; seed += parts {
					h := newHistory(uint64(seed))
					if err := h.run(); err != nil {
						t.Fatalf("seed %d, after %s: %v", seed, strings.Join(h.steps, ", "), err)
					}
					sum.add(h)
				}
				t.Logf("%+v", sum)
			})
		})
	}
}

// told is what happened in some histories.
type told struct{ histories, acked, unknown, powerLosses, kills, lives int }

func (s *told) add(h *history) {
	s.histories++
	s.acked += len(h.promise.acked)
	s.unknown += len(h.promise.txns) - len(h.promise.acked)
	s.powerLosses += h.powerLosses
	s.kills += h.kills
	s.lives += h.lives
}

func historySeeds(t *testing.T) (from, to int) {
	t.Helper()
	asked := os.Getenv("RINGFENCE_SEED")
	if asked == "" {
		return 0, 199
	}
	low, high, ok := strings.Cut(asked, "-")
	if !ok {
		high = low
	}
	from, bad := strconv.Atoi(low)
	to, badToo := strconv.Atoi(high)
	if err := errors.Join(bad, badToo); err != nil {
		t.Fatal(err)
	}
	return from, to
}

type history struct {
	promise
	rng   *rand.Rand
	mem   *vfs.Mem // the machine
	after *vfs.Mem // it lost its power: the machine that comes after it
	procs []*player
	calm  bool // nothing fails any more
	sick  int  // of so many operations one fails; 0: none
	rash  int  // of so many operations something else happens in front of one
	deep  int  // what happens in the middle of something

	steps                     []string
	err                       error
	powerLosses, kills, lives int
}

func newHistory(seed uint64) *history {
	h := &history{rng: rand.New(rand.NewPCG(seed, 21)), mem: vfs.NewMem(seed)}
	h.version = map[driver.Version]string{}
	return h
}

// one is true once in n times.
func (h *history) one(n int) bool { return n > 0 && h.rng.IntN(n) == 0 }

func (h *history) step(format string, args ...any) {
	h.steps = append(h.steps, strings.Repeat(">", h.deep)+fmt.Sprintf(format, args...))
}

// wrong notes the first thing that must not be.
func (h *history) wrong(p *player, doing string, err error) {
	if err != nil && h.err == nil {
		h.err = fmt.Errorf("process %d, %s: %w", p.id, doing, err)
	}
}

func (h *history) run() error {
	for range 2 + h.rng.IntN(4) {
		h.sick = []int{0, 0, 40, 6, 2}[h.rng.IntN(5)]
		h.rash = []int{0, 200, 30}[h.rng.IntN(3)]
		for range 5 + h.rng.IntN(20) {
			h.act()
			if h.bury(); h.after != nil {
				h.reboot()
			}
			if h.err != nil {
				h.end()
				return h.err
			}
		}
	}
	h.calm = true
	h.goOn()
	h.end()
	for range 2 {
		h.mem = h.mem.Crash()
		h.goOn()
		h.end()
	}
	return h.err
}

// act does one thing.
func (h *history) act() {
	h.deep++
	defer func() { h.deep-- }()
	if p := h.idle(); p != nil && !h.one(8) {
		switch h.rng.IntN(8) {
		case 0, 1, 2:
			p.write(h.one(6))
		case 3, 4:
			p.sync()
		case 5:
			p.write(false)
			p.sync()
		case 6:
			p.read()
		case 7:
			p.openSession()
		}
		return
	}
	switch {
	case len(h.procs) > 0 && h.one(4) && h.deep == 1:
		h.power()
	case h.one(3):
		if p := h.idle(); p != nil {
			p.kill()
			p.close()
		}
	case h.one(3):
		if p := h.idle(); p != nil {
			h.step("%d is closed", p.id)
			p.close()
		}
	default:
		if n := len(h.procs); n < 3 && (n == 0 || !h.procs[n-1].opening) {
			h.open()
		}
	}
}

// idle is a process that is not in the middle of something.
func (h *history) idle() *player {
	var free []*player
	for _, p := range h.procs {
		if !p.opening && !p.writing && !p.syncing && !p.killed && !p.doomed {
			free = append(free, p)
		}
	}
	if len(free) == 0 {
		return nil
	}
	return free[h.rng.IntN(len(free))]
}

// power goes; what is under way fails.
func (h *history) power() {
	if h.after != nil {
		return
	}
	h.powerLosses++
	if h.one(3) {
		h.step("mounted again")
		h.after = h.mem.CrashSameBoot()
	} else {
		h.step("power loss")
		h.after = h.mem.Crash()
	}
	for _, p := range h.procs {
		p.kill()
	}
}

// bury takes away who was killed in the midst of something.
func (h *history) bury() {
	for _, p := range slices.Clone(h.procs) {
		if p.killed || p.doomed {
			p.kill()
			p.close()
		}
	}
}

// reboot is when nothing is under way any more.
func (h *history) reboot() {
	h.end()
	h.mem, h.after = h.after, nil
}

func (h *history) end() {
	for len(h.procs) > 0 {
		h.procs[0].close()
	}
}

// goOn wants the registry to be well again: everybody writes and reads, after errors that they are
// still to be told of.
func (h *history) goOn() {
	if len(h.procs) == 0 {
		h.open()
	}
	for _, p := range h.procs {
		var err error
		for range 6 {
			_, err = p.write(false)
			if err == nil {
				err = p.sync()
			}
			if err == nil {
				err = p.read()
			}
			if err == nil {
				break
			}
		}
		h.wrong(p, "going on when all is well again", err)
	}
}

// meanwhile is what happens in front of an operation of p.
func (h *history) meanwhile(p *player) {
	if p.doomed {
		p.kill()
	}
	if h.calm || p.killed || h.deep > 3 || !h.one(h.rash) {
		return
	}
	switch h.rng.IntN(8) {
	case 0:
		p.kill()
	case 1:
		h.power()
	default:
		h.act()
	}
}

// hook is in front of each operation of p's file system.
func (h *history) hook(p *player, op *vfs.Op) error {
	if op.Kind == vfs.OpUnlock || op.Kind == vfs.OpClose {
		return nil
	}
	if h.meanwhile(p); h.calm || p.killed || !op.Kind.Changes() || !h.one(h.sick) {
		return nil
	}
	if op.Kind != vfs.OpWrite && op.Kind != vfs.OpSync && !h.one(4) {
		return nil // or it would seldom open
	}
	err := []error{syscall.EIO, syscall.EIO, syscall.ENOSPC}[h.rng.IntN(3)]
	if op.Kind == vfs.OpWrite {
		op.Short = h.rng.IntN(op.Length + 1)
		if op.Length >= sector {
			op.Short -= op.Short % sector
		}
		p.doomed = h.one(4)
	}
	h.step("%v of %s", err, op.Kind)
	return err
}

const sector = 512

// player is a process, as far as it works on the journal.
type player struct {
	h      *history
	id     int
	mem    *vfs.Mem
	s      *store
	core   *core
	syncer *syncer
	wait   []waits

	opening, writing, syncing, killed bool
	doomed                            bool // it was killed in the middle of a write, which it does not know
}

// waits is a transaction that waits for being durable.
type waits struct {
	n   int
	lsn uint64
}

func (h *history) open() {
	h.lives++
	p := &player{h: h, id: h.lives, mem: h.mem.Process(), opening: true}
	h.procs = append(h.procs, p)
	h.step("%d is opened", p.id)
	p.s = &store{
		fs:    vfs.Inject(p.mem, func(op *vfs.Op) error { return h.hook(p, op) }),
		space: 3 * pageSize, handle: newID(), log: slog.New(slog.DiscardHandler), before: func() { h.meanwhile(p) },
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := p.s.openDir()
	if err == nil {
		err = p.s.comeAlive(ctx)
	}
	p.opening = false
	if err != nil {
		if h.calm || errors.Is(err, fault.Corrupt) {
			h.wrong(p, "opening", p.seen(err))
		}
		h.step("%d does not open", p.id)
		p.close()
		return
	}
	p.syncer = &syncer{
		ctl: p.s.ctl, log: p.s.log, wake: func() {},
		open: func(i uint64) (vfs.File, error) { return p.s.dir.OpenFile(journalName(i), os.O_RDWR, 0o600) },
		redo: func() error { return p.locked(&request{rotate: true}) },
	}
	p.core = &core{j: p.s.j, log: p.s.log, syncer: p.syncer, fenced: func(string) error { return nil }}
}

// seen is an error that somebody sees: not that of a dead process.
func (p *player) seen(err error) error {
	if p.killed || p.doomed {
		return nil
	}
	return err
}

func (p *player) kill() {
	if !p.killed {
		p.killed = true
		p.h.kills++
		p.h.step("%d is killed", p.id)
		p.mem.Kill()
	}
}

// close releases what p has; of what waits nobody learns anything.
func (p *player) close() {
	for i, other := range p.h.procs {
		if other == p {
			p.h.procs = append(p.h.procs[:i:i], p.h.procs[i+1:]...)
			break
		}
	}
	if p.syncer != nil {
		_ = p.syncer.close()
	}
	_ = p.s.release()
}

var errBusy = errors.New("the lock is taken")

// locked writes a request under the lock, as turn does.
func (p *player) locked(r *request) error {
	if p.writing {
		return errBusy
	}
	p.writing = true
	defer func() { p.writing = false }()
	ok, err := p.s.lockFile.TryLock(true)
	if err == nil && !ok {
		err = errBusy
	}
	if err != nil {
		return err
	}
	var ch change
	err = p.core.writeLocked([]*request{r}, &ch)
	_ = p.s.lockFile.Unlock()
	if errors.Is(err, fault.Corrupt) {
		p.h.wrong(p, "writing", p.seen(err))
	}
	return err
}

// look is p's view, as it has it.
func (p *player) look() *view { return &view{p.s.j.st.m.List(""), p.s.j.rev} }

func (p *player) write(stale bool) (n int, err error) {
	if !stale || p.s.j.st == nil {
		p.writing = true
		var ch change
		err := p.s.j.refresh(&ch)
		p.writing = false
		if errors.Is(err, fault.Corrupt) {
			p.h.wrong(p, "looking", p.seen(err))
		}
		if err != nil {
			return 0, err
		}
	}
	_, log := p.look().log()
	size := 0
	if !p.h.one(4) {
		size = 1 + p.h.rng.IntN([]int{40, 600, 3 * pageSize}[p.h.rng.IntN(3)])
	}
	n, txn := p.h.next(log, "pad"+strconv.Itoa(p.h.rng.IntN(4)), size)
	r := &request{txns: []driver.Txn{txn}, size: txnSize(&txn)}
	p.h.step("%d writes %d", p.id, n)
	if err = p.locked(r); err == nil && len(r.r.results) == 1 {
		err = r.r.results[0].Err
	}
	switch {
	case p.killed || p.doomed || errors.Is(err, fault.Unknown):
	case err != nil:
		p.h.step("%d refused", n)
		p.h.refuse(n, err)
	default:
		p.h.wrong(p, "writing", p.h.gave(n, r.r.results[0].Versions))
		p.wait = append(p.wait, waits{n, p.s.j.applied})
	}
	return n, err
}

// sync answers those who wait.
func (p *player) sync() error {
	if len(p.wait) == 0 || p.syncing {
		return nil
	}
	wait := p.wait
	p.wait = nil
	err := p.durable(wait[len(wait)-1].lsn)
	for _, w := range wait {
		if err == nil {
			p.h.ack(w.n)
		}
	}
	p.h.step("%d acks %v: %v", p.id, wait, err == nil)
	return err
}

func (p *player) durable(lsn uint64) error {
	p.syncing = true
	err := p.syncer.sync(lsn)
	p.syncing = false
	if errors.Is(err, fault.Corrupt) {
		p.h.wrong(p, "making durable", p.seen(err))
	}
	if (p.killed || p.doomed) && err == nil {
		err = io.ErrUnexpectedEOF // nobody is told
	}
	return err
}

func (p *player) read() error {
	b := p.h.begin()
	p.writing = true
	var ch change
	err := p.s.j.refresh(&ch)
	p.writing = false
	if errors.Is(err, fault.Corrupt) {
		p.h.wrong(p, "reading", p.seen(err))
	}
	if err != nil {
		return err
	}
	v, lsn := p.look(), p.s.j.applied
	if err := p.durable(lsn); err != nil {
		return err
	}
	p.h.step("%d reads", p.id)
	p.h.wrong(p, "reading", p.h.keeps(b, v))
	return nil
}

// openSession leaves something for the next recovery.
func (p *player) openSession() {
	id := newID()
	r := &request{open: &sessionInfo{id: id, handle: p.s.handle, tag: newTag(), ttl: int64(time.Hour)}, size: 256}
	p.h.step("%d opens a session", p.id)
	_ = p.locked(r)
}
