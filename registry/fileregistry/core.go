package fileregistry

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
)

// core owns this process's view of the store: one goroutine that reads, checks and writes. It never
// waits: not for a sync, which is the syncer's part, so that the next transactions are written while
// the last ones are being synced; and not for the write lock, which it asks for again at intervals,
// so that what is read is answered while what is to be written waits.
type core struct {
	j        *journal
	lock     *locker
	syncer   *syncer
	dir      *directory
	log      *slog.Logger
	requests chan *request
	pokes    chan struct{}   // another process wrote
	closing  <-chan struct{} // closed: what waits for the lock is not worth waiting for
	quit     chan struct{}
	buf      []byte

	waiting []*request  // for the lock, oldest first
	tick    *time.Timer // of the next try
	ending  bool        // closing is closed

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

	asked time.Time
	fate  atomic.Int32 // which came first: the core that took it, or the caller that withdrew it
	r     reply
	loud  bool // watches have to be told of it
}

const (
	taken     = 1
	withdrawn = 2
)

type reply struct {
	results []driver.Result
	snap    driver.Snapshot
	err     error
}

func (c *core) run() {
	c.tick = time.NewTimer(time.Hour)
	defer c.tick.Stop()
	for {
		var reads []*request
		select {
		case r := <-c.requests:
			reads = c.take(r)
		case <-c.pokes:
			reads = c.take(nil)
		case <-c.tick.C:
		case <-c.closing:
			c.closing, c.ending = nil, true
		case <-c.quit:
			c.refuse(len(c.waiting), fmt.Errorf("file registry: %w", fault.Closed))
			return
		}
		c.turn()
		if reads != nil {
			c.read(reads)
		}
	}
}

// take sorts the requests that wait already: reads are answered now, and writes share a frame and a
// sync. The result is not nil.
func (c *core) take(first *request) []*request {
	reads := []*request{}
	for r, now := first, time.Now(); ; {
		switch {
		case r == nil:
		case r.list:
			reads = append(reads, r)
		default:
			r.asked = now
			c.waiting = append(c.waiting, r)
		}
		select {
		case r = <-c.requests:
		default:
			return reads
		}
	}
}

// read answers from the view as it is now.
func (c *core) read(reads []*request) {
	var ch change
	err := c.refresh(&ch)
	c.publish(&ch)
	for _, r := range reads {
		if r.r.err = err; err == nil {
			r.r.snap = driver.Snapshot{Entries: c.j.st.m.List(r.prefix), Revision: int64(c.j.rev), Time: time.Now().UnixMilli()}
		}
		if err != nil || c.syncer.durable(c.j.applied) {
			r.reply <- r.r
			continue
		}
		c.syncer.add(synced{lsn: c.j.applied, r: r})
	}
	if err != nil && len(reads) == 0 && !errors.Is(err, fault.Closed) {
		c.log.Error("the registry can't be read", "error", err)
	}
}

func (c *core) refresh(ch *change) error {
	if err := c.dir.look(time.Now()); err != nil {
		return err
	}
	return c.j.refresh(ch)
}

// turn writes what waits if the lock can be had, and says when to try again.
func (c *core) turn() {
	again, now := lockEvery, time.Now()
	if err := c.dir.look(now); err != nil {
		c.refuse(len(c.waiting), err)
	}
	c.forget()
	if len(c.waiting) > 0 {
		ok, err := c.ask(now)
		switch {
		case err != nil:
			c.refuse(len(c.waiting), err)
		case ok:
			c.write(c.portion())
			again = 0
		case c.ending:
			c.refuse(len(c.waiting), fmt.Errorf("file registry: %w", fault.Closed))
		default:
			c.refuse(c.late(now), c.lock.blame())
		}
	}
	if len(c.waiting) == 0 {
		c.lock.giveUp()
	}
	c.lock.release()
	if len(c.waiting) > 0 || c.lock.phase != idle {
		c.tick.Reset(again)
	}
}

// ask tries for the lock, several times when it is first wanted: it is mostly held for microseconds.
func (c *core) ask(now time.Time) (ok bool, err error) {
	tries := 1
	if c.lock.phase == idle {
		tries = lockTries
	}
	for ; tries > 0 && !ok && err == nil; tries-- {
		ok, err = c.lock.try(now)
	}
	return ok, err
}

// forget drops what was withdrawn.
func (c *core) forget() {
	kept := c.waiting[:0]
	for _, r := range c.waiting {
		if r.fate.Load() != withdrawn {
			kept = append(kept, r)
		}
	}
	clear(c.waiting[len(kept):])
	c.waiting = kept
}

// late is how many have waited longer than a stopped process is worth.
func (c *core) late(now time.Time) int {
	n := 0
	for n < len(c.waiting) && now.Sub(c.waiting[n].asked) >= c.lock.patience {
		n++
	}
	return n
}

// refuse answers the n oldest, of which nothing was done.
func (c *core) refuse(n int, err error) {
	for _, r := range c.shift(n) {
		if r.fate.CompareAndSwap(0, taken) {
			r.reply <- reply{err: err}
		}
	}
}

func (c *core) shift(n int) []*request {
	batch := c.waiting[:n:n]
	if c.waiting = c.waiting[n:]; len(c.waiting) == 0 {
		c.waiting = nil
	}
	return batch
}

// portion is what is written at once.
func (c *core) portion() []*request {
	n, size := 0, 0
	for n < len(c.waiting) && (n == 0 || size+c.waiting[n].size <= maxBatch) {
		size += c.waiting[n].size
		n++
	}
	batch := make([]*request, 0, n)
	for _, r := range c.shift(n) {
		if r.fate.CompareAndSwap(0, taken) {
			batch = append(batch, r)
		}
	}
	return batch
}

// write evaluates the requests under the lock, writes what they change as one frame, and leaves the
// answers to the syncer.
func (c *core) write(batch []*request) {
	var ch change
	err := c.writeLocked(batch, &ch)
	c.publish(&ch)
	for _, r := range batch {
		switch {
		case errors.Is(err, fault.Unknown):
			r.r.unknown(err)
		case err != nil:
			r.r.err = err
		}
		if err != nil || r.rotate {
			r.reply <- r.r
			continue
		}
		c.syncer.add(synced{lsn: c.j.applied, loud: r.loud, r: r})
	}
}

func (c *core) writeLocked(batch []*request, ch *change) error {
	j := c.j
	if err := j.refresh(ch); err != nil {
		return err
	}
	if err := j.agreeHeaders(); err != nil {
		return fmt.Errorf("%w: %w", spaceHint(err), fault.Unavailable)
	}
	if err := c.makeRoom(batch); err != nil {
		return fmt.Errorf("%w: %w", spaceHint(err), fault.Unavailable)
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
		return fmt.Errorf("registry journal: %w: %w", spaceHint(err), fault.Unknown)
	}
	if cap(c.buf) > maxBatch {
		c.buf = nil
	}
	return nil
}

// makeRoom starts a new generation when the frame does not fit into this one, or when this one is
// sealed.
func (c *core) makeRoom(batch []*request) error {
	size := 2 * frameHeader
	for _, r := range batch {
		size += r.size
	}
	if j := c.j; j.ctl.sealed.Load() == j.hdr.gen || j.hdr.offset(j.applied)+int64(size) > j.capacity {
		return j.rotate(size)
	}
	return nil
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
		signal(c.tableNew)
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
