package pulsarlog

import (
	"fmt"
	"sync/atomic"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// logins gives the token to the clients of a log. A lookup may send a client to a broker on another host, and
// without TLS the token would cross the network there: strict TLS refuses it. The client dials by itself, but
// makes a logger with the address first, which calls connecting.
type logins struct {
	config   Config
	arrivals arrivals
	refused  atomic.Pointer[error] // why no login gets the token any more
}

func newLogins(c Config) *logins { return &logins{config: c} }

// connecting runs before a client connects to a host.
func (l *logins) connecting(host string) {
	if l.config.encrypted() || !l.config.hasToken() || !l.config.StrictTLS {
		return
	}
	if err := storeurl.Plaintext("pulsar log: a broker that another one named,", []string{host}, true, nil); err != nil {
		l.refused.CompareAndSwap(nil, &err)
	}
}

// token is the one for the next login.
func (l *logins) token() (string, error) {
	if why := l.refused.Load(); why != nil {
		return "", *why
	}
	return l.config.token()
}

// explain gives the reason of a failed connection where it is ours.
func (l *logins) explain(err error) error {
	if why := l.refused.Load(); why != nil {
		return *why
	}
	return fmt.Errorf("%w: %w", fault.Unavailable, err)
}
