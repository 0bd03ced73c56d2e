package pulsarlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

const (
	// hostPatience is how long a host of the web service may take before the next one is asked.
	hostPatience = 10 * time.Second
	// webTimeout is how long a host may take at most.
	webTimeout = 30 * time.Second
)

// web is the REST interface of a cluster. Each of its hosts serves all of it.
type web struct {
	bases     []string // http://host:port/admin/v2
	client    *http.Client
	transport *http.Transport
	token     func() (string, error)
	patience  time.Duration
	preferred atomic.Int32 // the host that answered last
}

func (w *web) close() { w.transport.CloseIdleConnections() }

// request is what each host is asked.
type request struct {
	method, path, contentType string
	body                      []byte
	token                     string
}

// reply is what came of asking a host.
type reply struct {
	status int // 0: it gave no answer
	header http.Header
	body   []byte
	err    error
}

// call sends a request and decodes the answer into out, if it is not nil; an *http.Header gets that of the
// answer. The host that answered last is asked first, and the next one when that fails or takes long, until one
// gives an answer that is the cluster's. No answer, and one of 500 and above, is only that host's, and leaves open what became of
// the request. Whatever is sent may therefore be done twice. A deletion that finds nothing then was done
// by another try, and is nil; a creation that finds its name taken is fault.Conflict, by whatever process.
func (w *web) call(ctx context.Context, method, path, contentType string, in, out any) error {
	r := request{method: method, path: path}
	var err error
	if in != nil {
		r.contentType = contentType
		if r.body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("pulsar admin %s: %w: %w", path, fault.Invalid, err)
		}
	}
	if r.token, err = w.token(); err != nil {
		return fmt.Errorf("the token for Pulsar (token-file=): %w: %w", fault.Invalid, err)
	}
	a, others := w.round(ctx, r)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case others && method == http.MethodDelete && a.status == http.StatusNotFound:
		return nil
	case a.err != nil:
		return a.err
	}
	if out, ok := out.(*http.Header); ok {
		*out = a.header
		return nil
	}
	if out == nil || len(a.body) == 0 {
		return nil
	}
	if err := json.Unmarshal(a.body, out); err != nil {
		return fmt.Errorf("pulsar admin %s answered %.100q: %w", path, a.body, fault.Corrupt)
	}
	return nil
}

// round asks the hosts one after another, and says whether others than the one that answered may have done it too.
// When none answers in time, each is given twice as long: a slow one may be the only one that is there.
func (w *web) round(ctx context.Context, r request) (a reply, others bool) {
	first := int(w.preferred.Load())
	for limit := w.patience; ; limit *= 2 {
		slow := false
		var failed error
		for i := range w.bases {
			host := (first + i) % len(w.bases)
			limited, cancel := context.WithTimeout(ctx, limit)
			a = w.ask(limited, host, r)
			slow = slow || limited.Err() != nil
			cancel()
			if a.status > 0 && a.status < http.StatusInternalServerError {
				w.preferred.Store(int32(host)) //nolint:gosec // a place in the list
				return a, others
			}
			others = others || !neverSent(a.err)
			if failed != nil {
				a.err = fmt.Errorf("%w; %w", failed, a.err)
			}
			failed = a.err
		}
		if !slow || limit > webTimeout || ctx.Err() != nil {
			return a, others
		}
	}
}

func (w *web) ask(ctx context.Context, host int, r request) reply {
	var a reply
	req, err := http.NewRequestWithContext(ctx, r.method, w.bases[host]+r.path, bytes.NewReader(r.body))
	if err != nil {
		a.err = fmt.Errorf("pulsar admin %s: %w: %w", r.path, fault.Invalid, err)
		return a
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		var cause *url.Error
		if errors.As(err, &cause) {
			err = cause.Err
		}
		a.err = fmt.Errorf("pulsar's web service at %s does not answer (web= names it): %w: %w", req.URL.Host, fault.Unavailable, err)
		return a
	}
	a.body, err = io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		a.err = fmt.Errorf("pulsar's web service at %s: %w: %w", req.URL.Host, fault.Unavailable, err)
		return a
	}
	if a.status, a.header = resp.StatusCode, resp.Header; a.status >= http.StatusMultipleChoices {
		a.err = statusError(r.method, r.path, a.status, a.body)
	}
	return a
}

// neverSent says whether a request certainly reached no host.
func neverSent(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// redirect follows a broker to the one that has the topic, with the token, which Go drops on the way to another
// host. The token does not leave TLS. Where TLS is strict, it goes to no other host without TLS.
func redirect(strict bool) func(req *http.Request, via []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return errors.New("10 redirects")
		}
		token := via[0].Header.Get("Authorization")
		req.Header.Del("Authorization") // which Go sends on to the same host
		if token == "" {
			return nil
		}
		if req.URL.Scheme != "https" {
			if via[0].URL.Scheme == "https" {
				return nil
			}
			if err := storeurl.Plaintext("pulsar log: a redirect", []string{req.URL.Host}, strict, nil); err != nil {
				return err
			}
		}
		req.Header.Set("Authorization", token)
		return nil
	}
}

// errBusy says that another request works on the same thing: a subscription, or what the broker stores of one or
// of a topic, which it then finds in another version than it had just read.
var errBusy = fmt.Errorf("another request has it: %w", fault.Unavailable)

// shownReason bounds the bytes of a broker's reason in an error.
const shownReason = 400

func statusError(method, path string, status int, body []byte) error {
	reason := struct{ Reason string }{}
	if json.Unmarshal(body, &reason) != nil || reason.Reason == "" {
		reason.Reason = http.StatusText(status)
	}
	said, _, _ := strings.Cut(reason.Reason, "Stacktrace:")
	reason.Reason = strings.Join(strings.Fields(said), " ")
	if len(reason.Reason) > shownReason {
		reason.Reason = reason.Reason[:shownReason] + "…"
	}
	busy := strings.Contains(reason.Reason, "Subscription Busy") || strings.Contains(said, "BadVersionException")
	kind := fault.Unavailable
	if busy {
		kind = errBusy
	}
	switch status {
	case http.StatusNotFound:
		kind = fault.NotFound
	case http.StatusConflict:
		kind = fault.Conflict
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("pulsar refuses %s %s (%d %s): the token or certificate is wrong or lacks the right", method, path, status, reason.Reason)
	case http.StatusPreconditionFailed:
		if !busy {
			kind = fault.Invalid
		}
	case http.StatusBadRequest, http.StatusMethodNotAllowed:
		kind = fault.Invalid
	}
	return fmt.Errorf("pulsar admin %s %s: %d %s: %w", method, path, status, reason.Reason, kind)
}
