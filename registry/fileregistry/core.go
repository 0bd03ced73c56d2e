package fileregistry

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
)

// core owns this process's view of the store: one goroutine that reads, checks and writes. It
// never waits for a sync; that is the syncer's part, so that the next transactions are written
// while the last ones are being synced.
type core struct {
	j        *journal
	lock     *locker
	syncer   *syncer
	log      *slog.Logger
	requests chan *request
	pokes    chan struct{} // another process wrote
	quit     chan struct{}
	buf      []byte

	watches  kv.Watchers
	fenced   func(session string) error // what only the owner of a session knows of it
	seen     atomic.Uint64              // LSN that the view has reached
	sessions atomic.Pointer[[]sessionInfo]
	tableNew chan struct{} // sessions changed
}

const (
	maxTxn   = 32 << 20 // bytes of one transaction
	maxBatch = 8 << 20  // bytes of what is written at once, but for one large transaction
)

// request is one call on its way through the core and the syncer.
type request struct {
	txns   []driver.Txn
	size   int // of its ops, at most
	list   bool
	prefix string
	open   *sessionInfo
	end    []string
	rotate bool
	reply  chan reply // capacity 1

	r    reply
	loud bool // watches have to be told of it
}

type reply struct {
	results []driver.Result
	snap    driver.Snapshot
	err     error
}

func (c *core) run() {
	for {
		select {
		case r := <-c.requests:
			c.process(c.more(r))
		case <-c.pokes:
			var ch change
			if err := c.j.refresh(&ch); err != nil {
				c.log.Error("the registry can't be read", "error", err)
			}
			c.publish(&ch)
		case <-c.quit:
			return
		}
	}
}

// more takes the requests that wait already: they share a write and a sync.
func (c *core) more(first *request) []*request {
	batch := []*request{first}
	for size := first.size; size < maxBatch; {
		select {
		case r := <-c.requests:
			batch = append(batch, r)
			size += r.size
		default:
			return batch
		}
	}
	return batch
}

func (c *core) process(batch []*request) {
	size, writes := 0, false
	for _, r := range batch {
		size += r.size
		writes = writes || !r.list
	}
	var ch change
	var err error
	if writes {
		err = c.write(batch, size, &ch)
	} else {
		err = c.j.refresh(&ch)
	}
	c.publish(&ch)
	for _, r := range batch {
		switch {
		case errors.Is(err, fault.Unknown):
			r.r.unknown(err)
		case err != nil:
			r.r.err = err
		case r.list:
			r.r.snap = driver.Snapshot{Entries: c.j.st.m.List(r.prefix), Revision: int64(c.j.rev)}
		}
		if err != nil || r.rotate {
			r.reply <- r.r
			continue
		}
		c.syncer.add(synced{lsn: c.j.applied, loud: r.loud, r: r})
	}
}

// write evaluates the requests under the lock and writes what they change as one frame.
func (c *core) write(batch []*request, size int, ch *change) error {
	if err := c.lock.acquire(); err != nil {
		return err
	}
	err := c.writeLocked(batch, size, ch)
	if uerr := c.lock.release(); uerr != nil {
		c.log.Error("the registry's lock can't be released", "error", uerr)
	}
	return err
}

func (c *core) writeLocked(batch []*request, size int, ch *change) error {
	j := c.j
	if err := j.refresh(ch); err != nil {
		return err
	}
	if err := j.undoRotation(); err != nil {
		return fmt.Errorf("%w: %w", err, fault.Unavailable)
	}
	if err := c.makeRoom(batch, size); err != nil {
		return fmt.Errorf("%w: %w", err, fault.Unavailable)
	}
	rev := j.rev
	c.buf = beginFrame(c.buf)
	for _, r := range batch {
		var own change
		c.evaluate(r, &own)
		r.loud = own.any()
		ch.keys = append(ch.keys, own.keys...)
		ch.sessions = ch.sessions || own.sessions
	}
	if j.rev == rev {
		return nil
	}
	if err := j.append(c.buf, rev); err != nil {
		*ch = change{all: true, sessions: true}
		return fmt.Errorf("registry journal: %w: %w", err, fault.Unknown)
	}
	if cap(c.buf) > maxBatch {
		c.buf = nil
	}
	return nil
}

// makeRoom starts a new generation when the frame does not fit into this one, or when a failed
// sync has made this one worthless.
func (c *core) makeRoom(batch []*request, size int) error {
	for _, r := range batch {
		if r.rotate && c.j.ctl.failed.Load() == c.j.hdr.gen {
			c.log.Warn("a sync of the registry's journal failed; writing it anew", "generation", c.j.hdr.gen)
			return c.j.rotate(size + frameHeader)
		}
	}
	return c.j.room(size + 2*frameHeader)
}

// evaluate decides on one request, changes the view and adds to the frame.
func (c *core) evaluate(r *request, ch *change) {
	for i := range r.txns {
		r.r.results = append(r.r.results, c.txn(&r.txns[i], ch))
	}
	if r.open != nil {
		r.open.slot = c.j.st.freeSlot()
		if r.open.slot < 0 {
			r.r.err = fmt.Errorf("the registry has %d sessions, as many as it can: %w", slotCount, fault.Unavailable)
			return
		}
		c.j.ctl.slot(r.open.slot).Store(r.open.tag << tagShift)
		c.do(&op{kind: opOpen, key: r.open.id, info: *r.open}, ch)
	}
	for _, id := range r.end {
		if c.j.st.m.Alive(id) {
			c.do(&op{kind: opEnd, key: id}, ch)
		}
	}
}

func (c *core) txn(t *driver.Txn, ch *change) driver.Result {
	failed, err := c.j.st.m.Refuse(t)
	for i := 0; err == nil && i < len(t.Puts); i++ {
		if s := t.Puts[i].Session; s != "" {
			err = c.over(s)
		}
	}
	if err != nil {
		return driver.Result{Err: err, Failed: failed}
	}
	res := driver.Result{Versions: make([]driver.Version, 0, len(t.Puts))}
	for i := range t.Puts {
		p := &t.Puts[i]
		o := op{kind: opPut, quiet: t.Quiet, key: p.Key, session: p.Session, value: append([]byte(nil), p.Value...)}
		res.Versions = append(res.Versions, c.do(&o, ch))
	}
	for _, k := range t.Deletes {
		if _, ok := c.j.st.m.Get(k); ok {
			c.do(&op{kind: opDelete, quiet: t.Quiet, key: k}, ch)
		}
	}
	return res
}

// over refuses a session whose end is certain but not in the journal yet: its owner knows that it
// is past its deadline, or somebody has declared it dead.
func (c *core) over(id string) error {
	if err := c.fenced(id); err != nil { // first: an owner that lets go of it has declared it dead
		return err
	}
	info := c.j.st.sessions[id]
	if w := c.j.ctl.slot(info.slot).Load(); !tagged(w, info.tag) || w&dead != 0 {
		return fmt.Errorf("session %q has expired: %w", id, fault.Fenced)
	}
	return nil
}

// do applies an op to the view and adds it to the frame.
func (c *core) do(o *op, ch *change) driver.Version {
	c.j.rev++
	v := c.j.hdr.version(c.j.rev)
	c.j.st.apply(o, v, ch)
	c.buf = appendOp(c.buf, o)
	return v
}

// publish tells this process's watches and its keeper what changed.
func (c *core) publish(ch *change) {
	c.seen.Store(c.j.applied)
	if ch.all {
		c.watches.All()
	} else if len(ch.keys) > 0 {
		c.watches.Changed(ch.keys...)
	}
	if ch.sessions && c.j.st != nil {
		table := make([]sessionInfo, 0, len(c.j.st.sessions))
		for _, s := range c.j.st.sessions {
			table = append(table, s)
		}
		c.sessions.Store(&table)
		select {
		case c.tableNew <- struct{}{}:
		default:
		}
	}
}

// unknown turns the results of transactions that may not be durable into ErrUnknown.
func (r *reply) unknown(err error) {
	for i := range r.results {
		if r.results[i].Err == nil {
			r.results[i] = driver.Result{Err: fmt.Errorf("%w: %w", err, fault.Unknown)}
		}
	}
	if r.results == nil {
		r.err = errors.Join(err, fault.Unavailable)
	}
}
