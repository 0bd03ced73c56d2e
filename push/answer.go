package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/subscription"
)

const (
	shownBytes  = 400                       // of an answer's text
	longestWait = subscription.LongestPause // that is taken from an answer; the policy takes less
)

// judge says what an answer means for its record: nil, done; a Permanent error, it can never succeed;
// RetryAfter or any other error, it is tried again.
func judge(res *http.Response, body []byte, now time.Time) error {
	code := res.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	err := fmt.Errorf("the endpoint answered %d %s%s", code, http.StatusText(code), said(body))
	switch {
	case code >= 300 && code < 400:
		return fmt.Errorf("%w, which leads elsewhere and is not followed", err)
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		switch code { // it says nothing of the record: the endpoint, or a proxy before it, is overloaded
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			err = ringfence.Outage(err)
		}
		if wait := retryAfter(res.Header.Get("Retry-After"), now); wait > 0 {
			return ringfence.RetryAfter(err, wait)
		}
		return err
	case code == http.StatusGone:
		return fmt.Errorf("%w: %w", err, ErrGone)
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusNotFound:
		return refused{ringfence.Permanent(err)}
	case code >= 400:
		return ringfence.Permanent(err)
	}
	return err // 1xx, which can't be
}

// ErrGone is the answer 410: the endpoint wants nothing more. The record is tried again, once the
// subscription is resumed.
var ErrGone = errors.New("it wants no more deliveries")

// refused is an answer that may be about the address or the secret, and not about the record.
type refused struct{ error }

// Unwrap serves errors.Is.
func (e refused) Unwrap() error { return e.error }

// retryAfter is the wait that an answer asks for, in seconds or until a date; 0: none.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseUint(value, 10, 32)
		if err != nil || seconds > uint64(longestWait/time.Second) {
			return longestWait
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), longestWait)
}

// said shows the text of an answer: quoted, and cut.
func said(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	return ": " + quoted(string(body))
}

func quoted(s string) string {
	more := ""
	if len(s) > shownBytes {
		s, more = s[:shownBytes], "…"
	}
	return strconv.QuoteToASCII(s) + more
}

// noAnswer is the error of an attempt that got no answer. It has what the other side said, quoted, but not the
// parameters of the URL, which may be a secret. It is an outage unless the attempt was ended here; without a
// connection it is one that no record can cause.
func (e *Endpoint) noAnswer(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errLate) {
		return ringfence.Outage(fmt.Errorf("no answer of the endpoint: %w after %s", errLate, e.timeout))
	} else if cause != nil {
		return cause
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		if ownFault(err) {
			select {
			case e.unreached <- failure{err}:
			default:
			}
		}
		return unreached{failure{err}}
	}
	return ringfence.Outage(failure{err})
}

// unreached is the error of an attempt that sent nothing.
type unreached struct{ failure }

// Outage serves shard.IsOutage.
func (unreached) Outage() bool { return true }

// Unreached serves shard.IsUnreached.
func (unreached) Unreached() bool { return true }

// failure shows an error that may contain what the other side sent.
type failure struct{ err error }

func (f failure) Error() string {
	text := f.err.Error()
	if !plain(text) || len(text) > shownBytes {
		text = quoted(text)
	}
	return "no answer of the endpoint: " + text
}

func (f failure) Unwrap() error { return f.err }

// errLate is the end of an attempt's time.
var errLate = errors.New("time-out")

// read reads an answer, for a while and up to a bound. A connection whose answer was read to its end
// is used again.
func (e *Endpoint) read(res *http.Response, cut func()) []byte {
	if res.StatusCode < http.StatusOK {
		return nil // 101 hands out the connection, which no end of the request's context closes
	}
	if res.Body == http.NoBody {
		return nil
	}
	late := time.AfterFunc(e.body, cut)
	defer late.Stop()
	text, _ := io.ReadAll(io.LimitReader(res.Body, limits.EndpointAnswerBytes)) // what came before it broke off is shown
	return text
}
