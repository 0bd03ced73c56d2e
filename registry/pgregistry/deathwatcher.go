package pgregistry

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/ringfence/ringfence/registry/internal/presence"
)

// A wait for a lock is a statement with a snapshot: while it lasts, no row version that was
// replaced since can be removed, in all of the database. Checkpoints replace many, and at a high
// rate would cost five times as much after ten seconds. So a wait is long only while few entries change.
const (
	armedShort = 50 * time.Millisecond
	armedLong  = 2 * time.Second
	busy       = 1000 // updates a second
)

// settled is the time that processes have to reconnect after a start of the server, or of the waiting
// connection. Until then a free lock proves nothing.
const settled = 5 * time.Second

// The watcher gives the lock back at once: it only needs to know that the holder let go.
// A wait that fails may still have got the lock, if the time-out came at that very moment, and a rollback
// keeps session locks. So each wait first releases all locks, or the holder could not reconnect.
// A free lock is no proof of a death: the other connections of the holder, and the server's age, decide.
const (
	waitLock = `SELECT pg_advisory_unlock_all(); SET LOCAL lock_timeout = %d; SELECT pg_advisory_lock_shared(%d)`
	letGo    = `SELECT pg_advisory_unlock_shared($1)`
	isGone   = `SELECT s.holder FROM unnest($1::bigint[], $2::text[]) s (holder, tag)
	WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE right(application_name, length(s.tag)) = s.tag)
	AND clock_timestamp() - pg_postmaster_start_time() > $3::interval`
)

// gone selects the dead ones of processes that let go of their locks; others only lost a connection.
func gone(ctx context.Context, c *pgx.Conn, holders ...int64) (dead []int64, err error) {
	tags := make([]string, len(holders))
	for i, holder := range holders {
		tags[i] = tag(holder)
	}
	rows, err := c.Query(ctx, isGone, holders, tags, settled.String())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// deathWatcher waits, on a connection of its own, for the death of another process, whose advisory lock
// goes with it within milliseconds. If the waiting process stands still itself, the session keepers of
// others notice both.
type deathWatcher struct {
	s      *store
	conn   *pgx.Conn
	lostAt time.Time // when the last connection broke

	armed   time.Duration
	updates int64     // of entries, at the last count
	counted time.Time // the time of that
}

// run watches the next process in the ring until ctx ends.
func (v *deathWatcher) run(ctx context.Context) {
	defer v.drop()
	watched := presence.Watchers[int64]{Watch: v.guard}
	defer watched.Stop()
	for ctx.Err() == nil {
		peers, changed := v.s.keeper.view()
		next := peers.Successors(v.s.holder, 1)
		watched.Set(ctx, next)
		if len(next) == 0 {
			v.drop()
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// guard waits for the death of target until ctx ends.
func (v *deathWatcher) guard(ctx context.Context, target int64) {
	pause := time.Millisecond
	for ctx.Err() == nil {
		dead, err := v.wait(ctx, target)
		switch {
		case dead:
			v.s.keeper.end(ctx, target)
		case code(err) == codeLockTimeout || code(err) == codeCanceled:
			pause = time.Millisecond // it lives
			v.rearm(ctx)
			continue
		case err != nil && ctx.Err() == nil:
			v.drop()
			v.lostAt = time.Now()
			pause = max(pause, 50*time.Millisecond)
		}
		sleep(ctx, pause)
		pause = min(2*pause, time.Second)
	}
}

// wait returns when target lets go of its lock; dead: it has died.
func (v *deathWatcher) wait(ctx context.Context, target int64) (dead bool, err error) {
	if err := v.connect(ctx); err != nil {
		return false, err
	}
	v.armed = max(v.armed, armedShort)
	// Both in one message: should the wait fail, so does the setting.
	if err := v.conn.PgConn().Exec(ctx, fmt.Sprintf(waitLock, v.armed.Milliseconds(), target)).Close(); err != nil {
		return false, err
	}
	if _, err = v.conn.Exec(ctx, letGo, target); err == nil {
		var all []int64
		all, err = gone(ctx, v.conn, target)
		dead = len(all) > 0
	}
	if err != nil {
		v.drop() // and with it the lock
		return false, err
	}
	return dead && time.Since(v.lostAt) > settled, nil
}

// rearm sets the time of the next wait.
func (v *deathWatcher) rearm(ctx context.Context) {
	if v.conn == nil { // it was connecting that was cancelled
		return
	}
	var n int64
	if err := v.conn.QueryRow(ctx, v.s.q.updates).Scan(&n); err != nil {
		return // the next wait finds out
	}
	now := time.Now()
	if rate := float64(n-v.updates) / now.Sub(v.counted).Seconds(); rate > busy {
		v.armed = armedShort
	} else {
		v.armed = min(2*v.armed, armedLong)
	}
	v.updates, v.counted = n, now
}

func (v *deathWatcher) connect(ctx context.Context) error {
	if v.conn != nil && !v.conn.IsClosed() {
		return nil
	}
	v.drop()
	cc := v.s.conn.Copy()
	cc.RuntimeParams["application_name"] = "ringfence death watcher" // not a sign of life
	cc.AfterConnect = set(sessionSettings() + `SET statement_timeout = 0`)
	var made atomic.Bool
	cc.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &interruption{
			made:       &made,
			connecting: pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()},
			waiting:    pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: time.Second},
		}
	}
	var err error
	v.conn, err = v.s.connect(ctx, cc)
	made.Store(true)
	return err
}

// interruption handles the end of a context. It cancels a waiting statement, so that the connection can wait
// for another target. It breaks off a connection that is being made: a request to cancel needs its key,
// which pgx may be reading at that moment, without a lock.
type interruption struct {
	made       *atomic.Bool
	connecting pgconn.DeadlineContextWatcherHandler
	waiting    pgconn.CancelRequestContextWatcherHandler
	cancelled  bool // by waiting; pgx takes turns between the two methods
}

func (i *interruption) HandleCancel(ctx context.Context) {
	if i.cancelled = i.made.Load(); i.cancelled {
		i.waiting.HandleCancel(ctx)
	} else {
		i.connecting.HandleCancel(ctx)
	}
}

func (i *interruption) HandleUnwatchAfterCancel() {
	if i.cancelled {
		i.waiting.HandleUnwatchAfterCancel()
	} else {
		i.connecting.HandleUnwatchAfterCancel()
	}
}

func (v *deathWatcher) drop() {
	if v.conn != nil {
		hangUp(v.conn)
		v.conn = nil
	}
}
