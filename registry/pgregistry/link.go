package pgregistry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/lease"
)

// A process shows that it lives by a lock that PostgreSQL holds for one of its connections, the link. The lock
// goes with the connection, at once if the process is killed, and a peer that waits for it notices. The link
// also carries notifications. So a lost link puts two things in doubt: other processes may take the sessions
// of this one for dead (lease.Link), and changes may be missed (watches.All). Behind a proxy that pools
// transactions there is no such lock: the link polls for changes, and only the TTL ends a session.

const (
	// checkEvery is how often an idle link is used, so that no middlebox drops it, and checkMax bounds
	// the answer.
	checkEvery = 20 * time.Second
	checkMax   = 10 * time.Second
	// pollEvery is how often a registry behind a proxy looks for changes.
	pollEvery = time.Second

	retryFirst = 10 * time.Millisecond
	retryMax   = time.Second
)

// link is the connection that holds the advisory lock of the process and hears notifications. Behind a
// proxy it is a poll.
type link struct {
	s     *store
	shown *lease.Link // as peers see it

	mu      sync.Mutex
	up      bool
	tries   int // that failed
	err     error
	since   time.Time
	changed chan struct{} // closed and replaced at each change of these
}

func newLink(s *store) *link {
	return &link{s: s, shown: lease.NewLink(), changed: make(chan struct{})}
}

func (l *link) set(up bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up, l.err, l.since = up, err, time.Now()
	if err != nil {
		l.tries++
	}
	switch {
	case l.s.pooled: // only the TTL ends sessions
	case up:
		l.shown.Restored(l.shown.Age())
	default:
		l.shown.Lost()
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// age is how long the link has been up.
func (l *link) age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up {
		return 0
	}
	return time.Since(l.since)
}

// await waits until notifications come; it fails with the first attempt that does.
func (l *link) await(ctx context.Context) error {
	before := -1
	for {
		l.mu.Lock()
		up, tries, err, changed := l.up, l.tries, l.err, l.changed
		l.mu.Unlock()
		if up {
			return l.s.enter(ctx)
		}
		if before >= 0 && tries > before {
			return l.s.refused("listening", err)
		}
		before = tries
		select {
		case <-changed:
		case <-ctx.Done():
			return l.s.refused("listening", ctx.Err())
		}
	}
}

// run keeps the link up until ctx ends.
func (l *link) run(ctx context.Context) {
	wait := retryFirst
	for ctx.Err() == nil {
		began := time.Now()
		use := l.listen
		if l.s.pooled {
			use = l.poll
		}
		err := use(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > retryMax {
			wait = retryFirst
			l.s.log.Warn("lost the connection for notifications; connecting again", "schema", l.s.schema, "error", err)
		}
		l.set(false, err)
		sleep(ctx, wait/2+rand.N(wait)) //nolint:gosec // it only spreads the load
		wait = min(2*wait, retryMax)
	}
	l.set(false, driver.ErrClosed)
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// listen is one life of the connection.
func (l *link) listen(ctx context.Context) error {
	c, err := l.s.connect(ctx, l.s.conn)
	if err != nil {
		return err
	}
	defer hangUp(c)
	pid, err := l.introduce(ctx, c)
	if err != nil {
		return err
	}
	l.set(true, nil)
	l.s.watches.All() // changes in between were missed
	l.s.keeper.poke()
	for {
		n, err := hear(ctx, c)
		switch {
		case err == nil:
			l.dispatch(n)
		case !pgconn.Timeout(err) || ctx.Err() != nil:
			return err
		default:
			if err := l.check(ctx, c, pid); err != nil {
				return err
			}
		}
	}
}

// introduce takes the lock and listens.
func (l *link) introduce(ctx context.Context, c *pgx.Conn) (pid uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	if err := c.QueryRow(ctx, `SELECT pg_backend_pid() FROM pg_advisory_lock($1)`, l.s.holder).Scan(&pid); err != nil {
		return 0, err
	}
	_, err = c.Exec(ctx, `LISTEN `+l.s.q.channel)
	return pid, err
}

func hear(ctx context.Context, c *pgx.Conn) (*pgconn.Notification, error) {
	ctx, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	return c.WaitForNotification(ctx)
}

var errPooled = errors.New("another server process answers on this connection: a proxy pools transactions")

// check uses the connection, and fails if it is no longer the one with the lock.
func (l *link) check(ctx context.Context, c *pgx.Conn, pid uint32) error {
	ctx, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	var now uint32
	if err := c.QueryRow(ctx, backendPID).Scan(&now); err != nil {
		return err
	}
	if now != pid {
		return fmt.Errorf("%w; name the proxy's sessions, or connect past it", errPooled)
	}
	return nil
}

func (l *link) dispatch(n *pgconn.Notification) {
	sessions, keys, all := heard(n.Payload)
	if all {
		l.s.watches.All()
	} else {
		l.s.watches.Changed(keys...)
	}
	if sessions {
		l.s.keeper.poke()
	}
}

// poll looks for changes at intervals.
func (l *link) poll(ctx context.Context) error {
	seen, first := int64(0), true
	for {
		var n int64
		err := l.s.urgent(ctx, func(c *pgx.Conn) error {
			ctx, cancel := context.WithTimeout(ctx, checkMax)
			defer cancel()
			return c.QueryRow(ctx, l.s.q.changes).Scan(&n)
		})
		if err != nil {
			return err
		}
		if first {
			l.set(true, nil)
		}
		if first || n != seen {
			l.s.watches.All()
			l.s.keeper.poke()
		}
		seen, first = n, false
		sleep(ctx, pollEvery)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// hangUp closes a connection and joins what closes it when its context ended.
func hangUp(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
	<-c.PgConn().CleanupDone()
}
