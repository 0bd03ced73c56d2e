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
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// hostPatience is how long a host of the web service may take before another one is asked as well.
const hostPatience = 10 * time.Second

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
	host   int
	status int
	header http.Header
	body   []byte
	err    error // there is none
}

// call sends a request and decodes the answer into out, if it is not nil; an *http.Header gets that of the
// answer. The host that answered last is
// asked first, and another one when that fails or takes long, until one gives an answer that is the
// cluster's. No answer, and one of 500 and above, is only that host's, and leaves open what became of
// the request. Whatever is sent may therefore be done twice. A deletion that finds nothing then was done
// by another try, and is nil; a creation that finds its name taken is fault.Conflict, whoever took it.
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
	a, others, err := w.round(ctx, r)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case others && method == http.MethodDelete && a.status == http.StatusNotFound:
		return nil
	}
	if out, ok := out.(*http.Header); ok && a.status < http.StatusMultipleChoices {
		*out = a.header
		return nil
	}
	return decodeAnswer(r, a.status, a.body, out)
}

// round asks the hosts, and says whether others than the one that answered may have done it too.
func (w *web) round(ctx context.Context, r request) (_ reply, others bool, failed error) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan reply, len(w.bases))
	first, begun, under, reached := int(w.preferred.Load()), 0, 0, 0
	late := time.NewTimer(w.patience)
	defer late.Stop()
	another := func() {
		if begun == len(w.bases) || ctx.Err() != nil {
			return
		}
		host := (first + begun) % len(w.bases)
		asking.Go(func() { answers <- w.ask(ctx, host, r) })
		begun, under, reached = begun+1, under+1, reached+1
		late.Reset(w.patience)
	}
	for another(); under > 0; {
		select {
		case <-late.C:
			another()
		case a := <-answers:
			under--
			if a.err == nil && a.status < http.StatusInternalServerError {
				w.preferred.Store(int32(a.host)) //nolint:gosec // a place in the list
				return a, reached > 1, nil
			}
			if neverSent(a.err) {
				reached--
			}
			if a.err == nil {
				a.err = statusError(r.method, r.path, a.status, a.body)
			}
			if failed != nil {
				a.err = fmt.Errorf("%w; %w", failed, a.err)
			}
			failed = a.err
			another()
		}
	}
	return reply{}, false, failed
}

func (w *web) ask(ctx context.Context, host int, r request) reply {
	a := reply{host: host}
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
	a.status, a.header = resp.StatusCode, resp.Header
	a.body, err = io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		a.err = fmt.Errorf("pulsar's web service at %s: %w: %w", req.URL.Host, fault.Unavailable, err)
	}
	return a
}

// neverSent says whether a request certainly reached nobody.
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

func decodeAnswer(r request, status int, body []byte, out any) error {
	if status >= http.StatusMultipleChoices {
		return statusError(r.method, r.path, status, body)
	}
	if out == nil || len(body) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("pulsar admin %s answered %.100q: %w", r.path, body, fault.Corrupt)
	}
	return nil
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
