package fileregistry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry/driver"
)

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
		space: 3 * pageSize, handle: newID(), log: slog.New(slog.DiscardHandler), access: hook.Access{BeforeStore: func() { h.meanwhile(p) }},
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
