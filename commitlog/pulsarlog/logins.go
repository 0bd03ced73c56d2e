package pulsarlog

import (
	"fmt"
	"sync"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// logins gives the token to the clients of a log. A lookup may send a client to a broker on another host, and
// without TLS the token crosses the network there: a warning, or a refusal where TLS is strict. The client
// dials by itself, but makes a logger with the address first, which calls connecting.
type logins struct {
	config   Config
	arrivals arrivals

	mu      sync.Mutex
	told    bool  // the warning was logged
	refused error // no login gets the token any more
}

func newLogins(c Config) *logins {
	return &logins{config: c, told: storeurl.Plaintext("", c.plainHosts(), true, nil) != nil}
}

// connecting runs before a client connects to a host.
func (l *logins) connecting(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.config.encrypted() || !l.config.hasToken() || l.refused != nil || l.told && !l.config.StrictTLS {
		return
	}
	const store = "pulsar log: a broker that another one named,"
	if away := storeurl.Plaintext(store, []string{host}, true, nil); away == nil {
		return
	} else if l.config.StrictTLS {
		l.refused = away
		return
	}
	l.told = true
	_ = storeurl.Plaintext(store, []string{host}, false, l.config.Logger) // it only warns
}

// token is the one for the next login.
func (l *logins) token() (string, error) {
	l.mu.Lock()
	refused := l.refused
	l.mu.Unlock()
	if refused != nil {
		return "", refused
	}
	return l.config.token()
}

// explain gives the reason of a failed connection where it is ours.
func (l *logins) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused != nil {
		return l.refused
	}
	return fmt.Errorf("%w: %w", fault.Unavailable, err)
}
