package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// Serve answers requests on listeners until ctx ends, and closes them. On those of Unix sockets a request without a token
// is the local user's, whom the mode of the socket lets in.
func (d *Daemon) Serve(ctx context.Context, listeners ...net.Listener) error {
	s := &http.Server{
		Handler: d.guard(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: limits.RequestHeaderBytes,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if _, ok := c.(*net.UnixConn); ok {
				return context.WithValue(ctx, localUser{}, true)
			}
			return ctx
		},
		BaseContext: func(net.Listener) context.Context { return ctx }, // streams end with it
	}
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { ended <- s.Serve(l) }() // joined below
	}
	var err error
	left := len(listeners)
	select {
	case <-ctx.Done():
	case err = <-ended:
		left--
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if s.Shutdown(stop) != nil {
		_ = s.Close() // what does not end is cut
	}
	for range left {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// guard stands before all routes.
func (d *Daemon) guard() http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.refuse(w, r, fmt.Errorf("the request comes from a page of %q, and only pages of this daemon may send it: %w", r.Header.Get("Origin"), fault.Denied))
	}))
	return protection.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch cause := recover(); {
			case cause == http.ErrAbortHandler: //nolint:errorlint // as net/http has it
				panic(cause)
			case cause != nil:
				d.refuse(w, r, fmt.Errorf("a fault of the daemon: %v", cause))
			}
		}()
		if !d.known(r) {
			d.refuse(w, r, fmt.Errorf("host %.80q: expected a name of this daemon; --host NAME adds one: %w", r.Host, fault.Denied))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, limits.RequestBytes)
		d.mux.ServeHTTP(w, r)
	}))
}

// known says whether a request names this daemon. Else a page of any site could reach it through a name of its own that
// leads here (DNS rebinding).
func (d *Daemon) known(r *http.Request) bool {
	if r.Context().Value(localUser{}) != nil {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	return host == "localhost" || net.ParseIP(host) != nil || slices.Contains(d.config.Hosts, host)
}
