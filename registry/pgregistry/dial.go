package pgregistry

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/registry/driver"
)

// A connection whose other end has gone without a word is given up after about this time, by
// either side.
const (
	keepAliveIdle  = 5 * time.Second
	keepAliveEvery = 2 * time.Second
	keepAliveCount = 3
	unackedMax     = 12 * time.Second
)

// dialer opens the sockets, and knows which are open.
type dialer struct {
	net net.Dialer

	mu   sync.Mutex
	dead bool
	open map[net.Conn]struct{}
}

func newDialer() *dialer {
	return &dialer{open: make(map[net.Conn]struct{}), net: net.Dialer{
		Control:         unackedTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveEvery, Count: keepAliveCount},
	}}
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		_ = c.Close()
		return nil, fmt.Errorf("dial %s: %w", address, driver.ErrClosed)
	}
	d.open[c] = struct{}{}
	return &socket{Conn: c, d: d}, nil
}

// kill closes all sockets without a word, as the death of the process would.
func (d *dialer) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	for c := range d.open {
		_ = c.Close()
	}
}

type socket struct {
	net.Conn
	d *dialer
}

func (s *socket) Close() error {
	s.d.mu.Lock()
	delete(s.d.open, s.Conn)
	s.d.mu.Unlock()
	return s.Conn.Close()
}

// ownSettings makes the server treat our connections as this package needs it, whatever the
// database's defaults are. A proxy would refuse most of them.
func ownSettings(cc *pgx.ConnConfig, holder int64) {
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
	for name, value := range map[string]string{
		"tcp_keepalives_idle":           seconds(keepAliveIdle),
		"tcp_keepalives_interval":       seconds(keepAliveEvery),
		"tcp_keepalives_count":          strconv.Itoa(keepAliveCount),
		"tcp_user_timeout":              strconv.Itoa(int(unackedMax / time.Millisecond)),
		"default_transaction_isolation": "read committed",
		"jit":                           "off", // it costs more than it saves here
		"application_name":              appName(cc.RuntimeParams["application_name"], holder),
	} {
		cc.RuntimeParams[name] = value
	}
}

// tag marks the connections of one process that stand for its life, see vigil.
func tag(holder int64) string { return "ringfence/" + strconv.FormatInt(holder, 36) }

// appName puts the tag behind the user's name for the connections; 63 bytes are kept.
func appName(users string, holder int64) string {
	own := tag(holder)
	if users == "" {
		return own
	}
	return strings.ToValidUTF8(users[:min(len(users), 62-len(own))], "") + " " + own
}
