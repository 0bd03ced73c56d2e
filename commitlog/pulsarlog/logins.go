package pulsarlog

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/apache/pulsar-client-go/pulsar/auth"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// logins decides about the logins of all clients of a log. Brokers say where a topic is, so a client that was
// sent to this host may be sent on to any other.
type logins struct {
	config   Config
	plain    bool // the brokers are spoken to without TLS
	arrivals arrivals

	mu      sync.Mutex
	told    bool  // the user knows that a login goes over the network in the open
	refused error // from then on nobody gets the token
	trouble error // of the last connection; nil: it was made
}

func newLogins(c Config) *logins {
	l := &logins{config: c, plain: !c.encrypted()}
	l.told = storeurl.Plaintext("", c.plainHosts(), true, nil) != nil
	return l
}

// connecting is called before somebody connects to a host, and does not where it is an error.
func (l *logins) connecting(host string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused != nil {
		return l.refused
	}
	if !l.plain || !l.config.hasToken() {
		return nil
	}
	if host == l.config.host() { // which Open has looked at
		return nil
	}
	const store = "pulsar log: a broker that another one named,"
	away := storeurl.Plaintext(store, []string{host}, true, nil)
	switch {
	case away == nil:
	case l.config.StrictTLS:
		l.refused = away
		return away
	case !l.told:
		l.told = true
		_ = storeurl.Plaintext(store, []string{host}, false, l.config.Logger) // it only warns
	}
	return nil
}

// token is what is sent at a login.
func (l *logins) token() (string, error) {
	l.mu.Lock()
	refused := l.refused
	l.mu.Unlock()
	if refused != nil {
		return "", refused
	}
	return l.config.token()
}

// failed notes what became of a connection, and arrived that one was made.
func (l *logins) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trouble = err
}

func (l *logins) arrived() { l.failed(nil) }

// explain is the reason for a connection that failed, where it is known.
func (l *logins) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.refused != nil:
		return l.refused
	case l.trouble != nil:
		return fmt.Errorf("%w: %w: %s", fault.Unavailable, err, l.trouble.Error())
	}
	return fmt.Errorf("%w: %w", fault.Unavailable, err)
}

// relayLogin is how the client logs in at the relay, and nowhere else: a broker may send it on to a web
// service, which would see what it says in a header.
type relayLogin struct {
	auth.Provider // of tokens

	pass string
}

func (t *relayLogin) Init() error { return nil }

func (t *relayLogin) GetData() ([]byte, error) { return []byte(t.pass), nil }

func (t *relayLogin) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("a broker named the web service %s in its place: %w", r.URL.Host, fault.Invalid)
}
