package pulsarlog

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/apache/pulsar-client-go/pulsar/auth"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// Brokers say where a topic is, so a client that was sent to this host may log in at any other. The client
// dials by itself, and asks for the token without saying for whom; but before it dials it makes a logger
// that carries the address. That is where logins learns of it. Should a later client say nothing there, no
// token is given out at all.

// logins decides about the logins of all clients of a log.
type logins struct {
	config   Config
	plain    bool // the brokers are spoken to without TLS
	arrivals arrivals

	mu      sync.Mutex
	known   bool  // the client says whom it connects to
	told    bool  // the user knows that a login goes over the network in the open
	refused error // from then on nobody gets the token
}

func newLogins(c Config) *logins {
	l := &logins{config: c, plain: !c.encrypted()}
	l.told = storeurl.Plaintext("", c.plainHosts(), true, nil) != nil
	return l
}

// connecting is called before a client connects to a host.
func (l *logins) connecting(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = true
	if !l.plain || !l.config.hasToken() || l.refused != nil {
		return
	}
	const store = "pulsar log: a broker that another one named,"
	away := storeurl.Plaintext(store, []string{host}, true, nil)
	switch {
	case away == nil:
	case l.config.StrictTLS:
		l.refused = away
	case !l.told:
		l.told = true
		_ = storeurl.Plaintext(store, []string{host}, false, l.config.Logger) // it only warns
	}
}

// token is what is sent at a login.
func (l *logins) token() (string, error) {
	l.mu.Lock()
	known, refused := l.known, l.refused
	l.mu.Unlock()
	switch {
	case refused != nil:
		return "", refused
	case !known:
		return "", errors.New("the client did not say whom it logs in at")
	}
	return l.config.token()
}

// explain is the reason for a connection that failed, where it is ours.
func (l *logins) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused != nil {
		return l.refused
	}
	return fmt.Errorf("%w: %w", fault.Unavailable, err)
}

// tokenLogin logs in with the token at brokers, and nowhere else: one may send the client on to a web
// service, with or without TLS, which would see the token in a header.
type tokenLogin struct {
	auth.Provider // of the token

	logins *logins
}

func (t *tokenLogin) Init() error {
	_, err := t.logins.config.token()
	return err
}

func (t *tokenLogin) GetData() ([]byte, error) {
	token, err := t.logins.token()
	return []byte(token), err
}

func (t *tokenLogin) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("a broker named the web service %s in its place: %w", r.URL.Host, fault.Invalid)
}
