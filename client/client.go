// Package client speaks to a daemon ("ringfence serve") over HTTP. It needs no store and no password of one, only the
// address of a daemon and a token.
//
// Every operation is a value of [api.V1], and [Do] calls it. Errors are those of the daemon: errors.Is finds the same kinds
// as with the library.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// Config says which daemon, and as which principal. URL and a token are required.
type Config struct {
	URL       string // http://127.0.0.1:7433, https://ringfence.example.com; any of several daemons of the same stores
	Token     string
	TokenFile string // a file with the token, in its place
	Namespace string // "": the empty one
	CAFile    string // certificates (PEM) to trust beside those of the system
}

// Client calls a daemon. Its methods may be called concurrently.
type Client struct {
	base, namespace, token string
	http                   *http.Client
}

// New makes a client. It does not look whether the daemon is there. ErrInvalid with every fault of c.
func New(c Config) (*Client, error) {
	var errs []error
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		errs = append(errs, fmt.Errorf("server %.100q: expected http://HOST:PORT or https://HOST: %w", c.URL, fault.Invalid))
	}
	if c.TokenFile != "" {
		text, err := os.ReadFile(c.TokenFile)
		if err != nil {
			errs = append(errs, fmt.Errorf("token file: %w", err))
		}
		c.Token = strings.TrimSpace(string(text))
	}
	if c.Token == "" || strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		errs = append(errs, fmt.Errorf("token: expected rf_ID_SECRET_CHECK, as \"ringfence token create\" prints it: %w", fault.Invalid))
	}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 100, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		pool, _ := x509.SystemCertPool()
		if pool == nil {
			pool = x509.NewCertPool()
		}
		if err == nil && !pool.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s: expected certificates in PEM: %w", c.CAFile, fault.Invalid)
		}
		errs = append(errs, err)
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	namespace := c.Namespace
	if namespace == "" {
		namespace = api.DefaultNamespace
	}
	return &Client{base: u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/"), namespace: namespace, token: c.Token, http: &http.Client{Transport: t}}, nil
}

// Close lets go of idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Do calls an operation and decodes its answer. A problem of the daemon is the error.
func Do[In, Out any](ctx context.Context, c *Client, call *api.Call[In, Out], in *In) (out Out, err error) {
	r, err := call.Request(c.base, c.namespace, in)
	if err != nil {
		return out, err
	}
	resp, err := c.send(ctx, r)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return out, nil
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return out, fmt.Errorf("the answer of %s: %w: %w", r.URL.Redacted(), unsure(r, err), err)
	}
	return out, nil
}

// send sends a request. An answer that is a problem is an error.
func (c *Client) send(ctx context.Context, r *http.Request) (*http.Response, error) {
	r = r.WithContext(ctx)
	r.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s %s: %w: %w", r.Method, r.URL.Path, unsure(r, err), context.Cause(ctx))
		}
		return nil, fmt.Errorf("the daemon at %s does not answer: %w: %w", c.base, unsure(r, err), err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limits.ProblemBytes))
	if err != nil {
		return nil, fmt.Errorf("the daemon at %s answers %d: %w: %w", c.base, resp.StatusCode, fault.Unavailable, err)
	}
	return nil, api.ParseProblem(resp.StatusCode, body)
}

// unsure is what is known of an order whose answer did not come: one that was never sent left no trace.
func unsure(r *http.Request, err error) error {
	var dial *net.OpError
	if r.Method == http.MethodGet || errors.As(err, &dial) && dial.Op == "dial" {
		return fault.Unavailable
	}
	return fault.Unknown
}
