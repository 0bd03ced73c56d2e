package push

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/subscription/shard"
)

// Config is an endpoint and how to speak to it. Only URL is required; the zero value of each field is
// its default.
type Config struct {
	URL          string
	Subscription string // its name, for the receiver

	Timeout        time.Duration // of one attempt, in all; default 30 s
	ConnectTimeout time.Duration // until there is a connection, then until it is encrypted; default 10 s, at most Timeout
	HeaderTimeout  time.Duration // from the end of the request to the begin of the answer; default Timeout
	BodyTimeout    time.Duration // for the body of the answer; default 5 s, at most Timeout

	SecretFile string // secrets that sign requests, as in Standard Webhooks; read again now and then
	TokenFile  string // lines of an origin and its bearer token; read again now and then

	CloudEvents bool // each request is a CloudEvent 1.0 in binary mode; For: or where the definition says so

	AllowNet []netip.Prefix // special-purpose addresses, and those of this host, that may be dialed all the same; see ParseNet
	Files    TLSFiles       // certificates to trust, and those of this side
	TLS      *tls.Config    // other settings of TLS
	Resolver *net.Resolver  // default: that of this host
	Logger   *slog.Logger   // nil discards

	// Pause is called, with what was said, when the endpoint wants nothing more (410); and, as first, when it refuses a
	// record with 401, 403 or 404 and has taken none so far, as it is a wrong address or secret rather than a wrong record.
	// It gets what ResumedAt was when the attempt began, and returns the subscription as it is then: a pause that was ended
	// meanwhile may be for the same fault, so the answer pauses nothing. Took is called when the endpoint
	// takes a record, until it has succeeded once. For sets both; nil: neither.
	Pause     func(ctx context.Context, said string, first bool, resumed api.Time) (*api.Subscription, error)
	Took      func(ctx context.Context) error
	ResumedAt api.Time // of the subscription
}

// Endpoint delivers to one URL.
type Endpoint struct {
	request      http.Request // what all have in common
	subscription string
	cloudEvents  bool
	timeout      time.Duration
	body         time.Duration
	secrets      *kept[[][]byte]
	token        *kept[string]
	transport    *http.Transport // no client: one would follow redirections, unless told not to
	pause        func(context.Context, string, bool, api.Time) (*api.Subscription, error)
	took         func(context.Context) error
	taken        atomic.Bool              // it has taken a record, or what it refuses is given up from the first on
	resumed      atomic.Pointer[api.Time] // when the subscription was resumed last, as far as it is known
	unreached    chan error               // why it could not be reached, by a fault of this side
	log          *slog.Logger
}

// New prepares an endpoint and connects to nothing. Errors are fault.Invalid: a URL that can't be one,
// an address of this host or a private network that AllowNet does not have, an unreadable file.
func New(cfg Config) (*Endpoint, error) {
	u, err := subscription.CheckURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	g := newGuard(cfg.AllowNet)
	if err := g.obvious(u); err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", shownURL(u), err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	timeouts(&cfg)
	log := cfg.Logger.With("subscription", cfg.Subscription)
	e := &Endpoint{subscription: cfg.Subscription, cloudEvents: cfg.CloudEvents, timeout: cfg.Timeout, body: cfg.BodyTimeout, pause: cfg.Pause, took: cfg.Took, log: log, unreached: make(chan error, 1)}
	e.taken.Store(cfg.Pause == nil || cfg.Took == nil)
	e.resumed.Store(&cfg.ResumedAt)
	origin := u.Scheme + "://" + u.Host
	if e.secrets, err = keep(log, func() ([][]byte, error) { return readSecrets(cfg.SecretFile, origin) }); err != nil {
		return nil, err
	}
	if e.token, err = keep(log, func() (string, error) { return tokenFor(cfg.TokenFile, origin) }); err != nil {
		return nil, err
	}
	if e.token.value != "" && u.Scheme == "http" && !loopback(u) {
		return nil, fmt.Errorf("endpoint %s: its token would go over the network in the open; expected https: %w", shownURL(u), fault.Invalid)
	}
	if e.transport, err = transport(&cfg, g, origin); err != nil {
		return nil, err
	}
	e.request = http.Request{Method: http.MethodPost, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return e, nil
}

func timeouts(c *Config) {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
		*d = min(*d, c.Timeout)
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	set(&c.ConnectTimeout, 10*time.Second)
	set(&c.HeaderTimeout, c.Timeout)
	set(&c.BodyTimeout, 5*time.Second)
}

// transport speaks HTTP/1.1 and, over TLS, HTTP/2. It uses no proxy, as the addresses that a proxy
// dials can't be checked, and takes no compressed answers, which could be of any size.
func transport(c *Config, g guard, origin string) (*http.Transport, error) {
	dialer := &net.Dialer{Timeout: c.ConnectTimeout, ControlContext: g.control, Resolver: c.Resolver}
	var secured *tls.Config
	if c.TLS != nil {
		secured = c.TLS.Clone()
	}
	beginsWithin := c.HeaderTimeout
	if beginsWithin == c.Timeout {
		beginsWithin = 0 // which ends the attempt no later, without a timer of its own
	}
	by := bounded(dialer.DialContext)
	t := &http.Transport{
		DialContext:            by,
		TLSClientConfig:        secured,
		TLSHandshakeTimeout:    c.ConnectTimeout,
		ResponseHeaderTimeout:  beginsWithin,
		MaxResponseHeaderBytes: limits.EndpointAnswerBytes,
		MaxIdleConnsPerHost:    128,
		MaxConnsPerHost:        limits.EndpointConnections / 2, // where requests wait for one; with HTTP/2 it holds nothing
		IdleConnTimeout:        90 * time.Second,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: c.ConnectTimeout},
	}
	if c.Files == (TLSFiles{}) {
		return t, nil
	}
	var err error
	t.DialTLSContext, err = c.Files.secure(c.Logger, origin, secured, by, c.ConnectTimeout)
	return t, err
}

// Deliver posts a record: it is a ringfence.Handler. nil says that it is done.
func (e *Endpoint) Deliver(ctx context.Context, m *ringfence.Message) error {
	taken, resumed := e.taken.Load(), *e.resumed.Load()
	err := e.post(ctx, m)
	switch gone := errors.Is(err, ErrGone); {
	case err == nil:
		e.note(ctx)
	case gone && e.pause != nil, !taken && errors.As(err, &refused{}):
		return e.refused(ctx, err, !gone, resumed)
	}
	return err
}

// note makes known that the endpoint has taken a record.
func (e *Endpoint) note(ctx context.Context) {
	if !e.taken.CompareAndSwap(false, true) {
		return
	}
	if err := e.took(ctx); err != nil {
		e.taken.Store(false)
		e.log.Warn("that the endpoint takes records could not be noted; it is tried again", "error", err)
	}
}

// pausing is how long a record waits for the pause that its answer led to.
const pausing = time.Second

// refused pauses the subscription because of an answer, which counts as no attempt. One that comes when the endpoint has
// taken a record meanwhile, or the subscription was resumed, may be from before the endpoint was mended: the record is tried
// once more, and judged by that.
func (e *Endpoint) refused(ctx context.Context, err error, first bool, resumed api.Time) error {
	now, late := e.pause(ctx, err.Error(), first, resumed)
	if late != nil {
		return shard.Uncounted(fmt.Errorf("%s, and the subscription could not be paused for that: %w", err.Error(), late), pausing)
	}
	switch {
	case now.ResumedAt != resumed:
		e.resumed.Store(&now.ResumedAt)
	case now.Paused == nil:
		e.taken.Store(true)
	}
	return shard.Uncounted(errors.New(err.Error()), pausing) // as text: it gives no record up
}

func (e *Endpoint) post(ctx context.Context, m *ringfence.Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, e.timeout, errLate)
	defer cancel()
	req := e.request.WithContext(ctx)
	with(req, m.Value)
	now := time.Now()
	req.Header = header(e.subscription, m, e.cloudEvents)
	if keys := e.secrets.current(now); len(keys) > 0 {
		req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		req.Header.Set("Webhook-Signature", signatures(keys, req.Header.Get("Webhook-Id"), now, m.Value))
	}
	if token := e.token.current(now); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := e.transport.RoundTrip(req)
	if err != nil {
		return e.noAnswer(ctx, err)
	}
	defer res.Body.Close()
	return judge(res, e.read(res, cancel), time.Now())
}

// with gives a request its body, also for another try on a new connection when none of it had been sent.
func with(req *http.Request, value []byte) {
	req.ContentLength = int64(len(value))
	req.GetBody = func() (io.ReadCloser, error) {
		if len(value) == 0 {
			return http.NoBody, nil
		}
		return io.NopCloser(bytes.NewReader(value)), nil
	}
	req.Body, _ = req.GetBody()
}

// Close closes the idle connections.
func (e *Endpoint) Close() { e.transport.CloseIdleConnections() }

func shownURL(u *url.URL) string {
	return subscription.Endpoint{URL: u.String()}.Shown().URL
}

// loopback reports whether a URL leads to this host by its name.
func loopback(u *url.URL) bool {
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
