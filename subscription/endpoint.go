package subscription

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// Endpoint is the HTTP destination of a subscription. It holds no secret: each deliverer reads the
// file on its own host.
type Endpoint struct {
	URL        string `json:"url"`
	TimeoutMS  int64  `json:"timeout_ms,omitempty"`  // of one attempt; default 30 s
	SecretFile string `json:"secret_file,omitempty"` // absolute; what requests are signed with
	// CloudEvents makes each request a CloudEvent in binary mode; false: the deliverer's own setting counts.
	CloudEvents bool `json:"cloudevents,omitempty"`
	// GiveUpFirst gives records up that are refused with 401, 403 or 404 also before the endpoint has taken any; false: that
	// pauses the subscription.
	GiveUpFirst bool `json:"give_up_first,omitempty"`
}

const (
	maxURLBytes    = 2048
	longestAttempt = time.Hour
)

// NewEndpoint returns the endpoint of a definition; nil: there is none.
func NewEndpoint(address string, timeout time.Duration, secretFile string, cloudEvents, giveUpFirst bool) *Endpoint {
	e := Endpoint{URL: address, TimeoutMS: millis(timeout), SecretFile: secretFile, CloudEvents: cloudEvents, GiveUpFirst: giveUpFirst}
	if e == (Endpoint{}) {
		return nil
	}
	return &e
}

// Shown returns the endpoint for people, without the parameters of its URL: they may be a secret.
func (e Endpoint) Shown() Endpoint {
	e.URL = storeurl.RedactText(e.URL)
	return e
}

// Timeout bounds one attempt; 0: the deliverer's own setting.
func (e *Endpoint) Timeout() time.Duration {
	return ms(min(e.TimeoutMS, longestAttempt.Milliseconds()))
}

// validate reports every fault of an endpoint; nil is valid.
func (e *Endpoint) validate() error {
	if e == nil {
		return nil
	}
	_, err := CheckURL(e.URL)
	errs := []error{err}
	if e.TimeoutMS < 0 || e.TimeoutMS > longestAttempt.Milliseconds() {
		errs = append(errs, fmt.Errorf("endpoint: a time-out of %s; expected at most %s, and none that is negative: %w", ms(e.TimeoutMS), longestAttempt, fault.Invalid))
	}
	if e.SecretFile != "" && !filepath.IsAbs(e.SecretFile) {
		errs = append(errs, fmt.Errorf("endpoint: the secret file %q; expected an absolute path, as it is read by another process: %w", e.SecretFile, fault.Invalid))
	}
	return errors.Join(errs...)
}

// CheckURL parses the URL of an endpoint, or returns fault.Invalid with what is wrong. It shows nothing
// that may be a secret.
func CheckURL(raw string) (*url.URL, error) {
	bad := func(why string) (*url.URL, error) {
		return nil, fmt.Errorf("endpoint %s: %s: %w", storeurl.Quote(raw), why, fault.Invalid)
	}
	if len(raw) > maxURLBytes {
		return nil, fmt.Errorf("endpoint: a URL of %d bytes; at most %d are allowed: %w", len(raw), maxURLBytes, fault.Invalid)
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return bad("expected a URL of visible ASCII; escape the rest with %")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return bad("that is no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return bad("expected http:// or https://")
	case u.Hostname() == "":
		return bad("there is no host in it")
	case u.User != nil:
		return bad("it holds a user or a password, which every reader of the registry would see; expected neither: give a token to the processes that deliver, with --token-file")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return bad("there is a fragment (#) in it, which is never sent")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return bad("expected a port of 1 to 65535")
		}
	}
	return u, nil
}

// OriginOf returns what the endpoints of one server share, as "https://api.example.com", without the default port of
// its scheme.
func OriginOf(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("the endpoint %q: expected an origin, as \"https://api.example.com\": %w", raw, fault.Invalid)
	}
	host := strings.ToLower(u.Host)
	host = strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	return u.Scheme + "://" + host, nil
}
