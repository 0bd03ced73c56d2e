package pgregistry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/lease"
	"github.com/ringfence/ringfence/registry/internal/presence"
)

// Any process may end the sessions of any other, by one call (sweep): the ones that expired by the clock of
// the store, and the ones of processes that it names as dead. The answer lists the live sessions, so each
// sweep is a reading too. A session of this process that was open before a reading began, and is not in
// it, has ended. Of two sweeps at once the answer of the later one counts.
//
// A process that is silent in a reading may be about to reconnect. So judge asks for its lock first, and only
// once this process has been connected for a while, because after a failover all are silent.

// look is how often the sessions are read without another reason.
const look = 10 * time.Second

// A peer is a live session of any process, which its lock names. Silent: the lock was free at that moment.
// Behind a proxy a process has no lock.
type (
	peer    = presence.Sighting[pgtype.UUID, int64]
	reading = presence.Reading[pgtype.UUID, int64]
)

// sessionKeeper keeps the sessions of this process, knows those of others, and ends what has expired.
type sessionKeeper struct {
	s     *store
	pokes chan struct{}

	own     lease.Own
	mu      sync.Mutex
	begun   int // sweeps
	shown   int // the number of the one that peers are from
	peers   reading
	changed chan struct{} // closed and replaced when peers change
}

func newSessionKeeper(s *store) *sessionKeeper {
	return &sessionKeeper{s: s, pokes: make(chan struct{}, 1), changed: make(chan struct{})}
}

// poke has the sessions read again.
func (k *sessionKeeper) poke() {
	select {
	case k.pokes <- struct{}{}:
	default:
	}
}

// view is the last reading; changed is closed when there is a newer one.
func (k *sessionKeeper) view() (peers reading, changed <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.peers, k.changed
}

// run ends expired sessions. It sweeps when the first known session should expire, which moves as
// sessions are renewed.
func (k *sessionKeeper) run(ctx context.Context) {
	next := time.NewTimer(look)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.pokes:
		case <-next.C:
		}
		if k.s.gate.Pass(ctx) != nil {
			return
		}
		wait, err := k.sweep(ctx, nil)
		if err != nil {
			wait = retryMax
		}
		k.judge(ctx)
		next.Reset(wait)
	}
}

// judge ends the sessions of processes whose deaths no peer waited for.
func (k *sessionKeeper) judge(ctx context.Context) {
	if k.s.pooled || k.s.link.age() < settled {
		return
	}
	peers, _ := k.view()
	suspects := peers.Suspects(k.s.holder)
	if len(suspects) == 0 {
		return
	}
	var dead []int64
	err := k.s.urgent(ctx, func(c *pgx.Conn) (err error) {
		dead, err = gone(ctx, c, suspects...)
		return err
	})
	if err == nil && len(dead) > 0 {
		k.end(ctx, dead...)
	}
}

// end ends the sessions of processes that died.
func (k *sessionKeeper) end(ctx context.Context, holders ...int64) {
	if k.s.gate.Pass(ctx) != nil {
		return
	}
	peers, _ := k.view()
	ids := peers.Of(holders...)
	k.s.log.Info("processes are gone; ending their sessions", "processes", len(holders), "first", holders[0], "sessions", len(ids))
	if _, err := k.sweep(ctx, ids); err != nil && ctx.Err() == nil {
		k.s.log.Warn("could not end the sessions of processes that are gone; trying again", "processes", len(holders), "first", holders[0], "error", err)
	}
}

// sweep ends the given sessions and the expired ones, and learns which live. It returns when to sweep again.
func (k *sessionKeeper) sweep(ctx context.Context, dead []pgtype.UUID) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	n, before := k.begin()
	if dead == nil {
		dead = []pgtype.UUID{}
	}
	var peers reading
	var ahead []string // sessions that expire later than any TTL allows
	wait := look
	err := k.s.urgent(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, k.s.q.sweep, dead)
		if err != nil {
			return err
		}
		var session pgtype.UUID
		var holder int64
		var held bool // the process had its lock just now
		var left float64
		var expires *string
		_, err = pgx.ForEachRow(rows, []any{&session, &holder, &held, &left, &expires}, func() error {
			if expires != nil {
				ahead = append(ahead, id{session}.text()+" until "+*expires)
				return nil
			}
			peers = append(peers, peer{Session: session, Process: holder, Silent: !held})
			wait = min(wait, time.Duration(left*float64(time.Millisecond)))
			return nil
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	if len(ahead) > 0 {
		k.s.log.Warn("ended sessions that would live longer than any may: the clock of the server was set back", "sessions", len(ahead), "first", ahead[0])
	}
	k.learn(n, peers, before)
	return wait + 5*time.Millisecond, nil
}

// begin gives a sweep its number, and the sessions of this process.
func (k *sessionKeeper) begin() (n int, own []pgtype.UUID) {
	k.mu.Lock()
	k.begun++
	n = k.begun
	k.mu.Unlock()
	for _, text := range k.own.IDs() {
		x, _ := parse(text)
		own = append(own, x)
	}
	return n, own
}

// learn publishes a reading, unless a sweep that began later has published its own. Sessions of this
// process that were open before the reading, and are not in it, were ended by others.
func (k *sessionKeeper) learn(n int, peers reading, before []pgtype.UUID) {
	k.mu.Lock()
	if n > k.shown {
		k.shown, k.peers = n, peers
		close(k.changed)
		k.changed = make(chan struct{})
	}
	k.mu.Unlock()
	for _, x := range peers.Missing(before) {
		k.own.Lost(id{x}.text())
	}
}

// OpenSession implements driver.Registry.
func (s *store) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if err := s.attach(ctx); err != nil {
		return nil, err
	}
	x := s.ids.next()
	opened, err := lease.Ask(s.link.shown, func() error {
		return s.onLive(ctx, s.urgent, pgconn.SafeToRetry, func(c *pgx.Conn) error {
			_, err := c.Exec(ctx, s.q.open, x, s.holder, ttl.Seconds())
			return err
		})
	})
	if err != nil {
		return nil, s.refused("open a session", err) // an unknown session expires
	}
	k := s.keeper
	l := k.own.Start(lease.Config{
		ID: id{x}.text(), TTL: ttl, Opened: opened, Link: s.link.shown, Logger: s.log, Gate: s.gate,
		Renew: func(ctx context.Context) error { return k.renew(ctx, x) },
		End:   func(ctx context.Context) error { return k.close(ctx, x) },
	})
	if l == nil {
		return nil, fmt.Errorf("postgres registry: %w", driver.ErrClosed)
	}
	return l, nil
}

func (k *sessionKeeper) renew(ctx context.Context, x pgtype.UUID) error {
	return k.s.urgent(ctx, func(c *pgx.Conn) error {
		tag, err := c.Exec(ctx, k.s.q.renew, x)
		if err == nil && tag.RowsAffected() == 0 {
			return fmt.Errorf("session %s has ended: %w", id{x}.text(), driver.ErrFenced)
		}
		return err
	})
}

func (k *sessionKeeper) close(ctx context.Context, x pgtype.UUID) error {
	if _, err := k.sweep(ctx, []pgtype.UUID{x}); err != nil {
		return k.s.refused("close a session", err)
	}
	return nil
}

// closeMax bounds how long Close waits for a store that does not answer.
const closeMax = 2 * time.Second

// endAll closes the sessions of this process and opens no more.
func (k *sessionKeeper) endAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeMax)
	defer cancel()
	return k.own.End(ctx)
}
