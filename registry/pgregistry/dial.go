package pgregistry

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A connection whose other end has gone without a word is given up after about this time, by
// either side.
const (
	keepAliveIdle  = 5 * time.Second
	keepAliveEvery = 2 * time.Second
	keepAliveCount = 3
	unackedMax     = 12 * time.Second
)

// dialer opens the sockets.
func dialer() *net.Dialer {
	return &net.Dialer{
		Control:         unackedTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveEvery, Count: keepAliveCount},
	}
}

func sessionSettings() string {
	return fmt.Sprintf(`SET tcp_keepalives_idle = %d; SET tcp_keepalives_interval = %d; SET tcp_keepalives_count = %d;
		SET tcp_user_timeout = %d; SET default_transaction_isolation = 'read committed'; SET jit = off; SET bytea_output = 'hex';
		SELECT set_config('idle_session_timeout', '0', false) WHERE current_setting('idle_session_timeout', true) IS NOT NULL;`,
		keepAliveIdle/time.Second, keepAliveEvery/time.Second, keepAliveCount, unackedMax/time.Millisecond)
}

// set executes statements on each new connection. They can't go with its start: a proxy that
// pools sessions refuses most settings there.
func set(statements string) pgconn.AfterConnectFunc {
	return func(ctx context.Context, c *pgconn.PgConn) error {
		return c.Exec(ctx, statements).Close()
	}
}

// tag marks the connections of one process that stand for its life, see deathWatcher.
func tag(holder int64) string { return "ringfence/" + strconv.FormatInt(holder, 36) }

// appName puts the tag behind the user's name for the connections. The server keeps 63 bytes,
// after it has replaced what is not printable ASCII by "?", or from version 16 on by four bytes.
func appName(users string, holder int64) string {
	own := tag(holder)
	if users == "" {
		return own
	}
	users = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, users)
	return users[:min(len(users), 62-len(own))] + " " + own
}
