package fileregistry

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

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
		return 0, 99
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
	full  bool // they fail since the disk is full, which copies on write
	rash  int  // of so many operations something else happens in front of one
	deep  int  // what happens in the middle of something

	steps                     []string
	err                       error
	powerLosses, kills, lives int
}

const sector = 512 // of what fails in the middle, so much at least was written or not

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
		h.rash = []int{0, 200, 30, 10}[h.rng.IntN(4)]
		for range 5 + h.rng.IntN(20) {
			if h.one(3) {
				h.sick, h.full = []int{0, 0, 40, 6, 2, 1}[h.rng.IntN(6)], h.one(2)
			}
			h.act()
			if h.clearAway(); h.after != nil {
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

// clearAway takes away who was killed in the midst of something.
func (h *history) clearAway() {
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
	err := syscall.EIO
	if h.full {
		if op.Kind == vfs.OpSync {
			return nil
		}
		err = syscall.ENOSPC
	}
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
