package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/daemon"
	"github.com/ringfence/ringfence/internal/fault"
)

// door are the flags of the API that serve opens.
type door struct {
	listen      string
	hosts       []string
	cert, key   string
	behindProxy bool
	state       string
}

func (o *door) register(fl *pflag.FlagSet) {
	fl.StringVar(&o.listen, "listen", "", "`ADDRESS:PORT` at which to answer requests of programs in any language, as "+daemon.DefaultAddress+"; without it there is no API")
	fl.StringSliceVar(&o.hosts, "host", nil, "`name` by which clients reach the API, besides addresses and localhost; may be repeated")
	fl.StringVar(&o.cert, "tls-cert", "", "`file` with the certificate of the API (PEM)")
	fl.StringVar(&o.key, "tls-key", "", "`file` with the key of --tls-cert (PEM)")
	fl.BoolVar(&o.behindProxy, "behind-proxy", false, "listen without TLS on an address that other hosts reach, as a proxy before it has TLS")
	fl.StringVar(&o.state, "state", "", "`directory` of the first token and the socket (default: the data directory, or with other stores ringfence in the user's configuration directory)")
}

func (o *door) check() error {
	var errs []error
	if o.listen == "" && (len(o.hosts) > 0 || o.cert != "" || o.key != "" || o.behindProxy || o.state != "") {
		errs = append(errs, fmt.Errorf("--host, --tls-cert, --tls-key, --behind-proxy and --state are of the API: expected --listen: %w", fault.Invalid))
	}
	if (o.cert == "") != (o.key == "") {
		errs = append(errs, fmt.Errorf("expected --tls-cert and --tls-key, or none of them: %w", fault.Invalid))
	}
	if o.listen != "" {
		local, err := daemon.IsLoopback(o.listen)
		if err == nil && !local && o.cert == "" && !o.behindProxy {
			err = fmt.Errorf("--listen %s: other hosts reach that address, and tokens would cross the network as they are: expected --tls-cert and --tls-key, or --behind-proxy if a proxy has TLS: %w", o.listen, fault.Invalid)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// open answers requests until ctx ends; the function that it returns waits for the end of that.
func (o *door) open(ctx context.Context, a *app, rf *ringfence.Client) (wait func() error, err error) {
	if o.listen == "" {
		return func() error { return nil }, nil
	}
	dir, err := o.stateDir(a)
	if err != nil {
		return nil, err
	}
	d, err := daemon.Open(ctx, daemon.Config{Client: rf, Hosts: o.hosts, Logger: a.logger()})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	tcp, err := daemon.Listen(ctx, o.listen)
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--tls-cert, --tls-key: %w: %w", err, fault.Invalid), tcp.Close())
		}
		tcp, scheme = tls.NewListener(tcp, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}), "https"
	}
	if err := a.firstToken(ctx, d, filepath.Join(dir, "admin.token")); err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	fmt.Fprintf(a.stderr, "ringfence: the API is at %s://%s/v1/\n", scheme, tcp.Addr())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx, []net.Listener{tcp}...) }() // joined by wait
	return func() error { return errors.Join(<-ended, d.Close()) }, nil
}

// firstToken writes a token of an owner to a file that only its user reads, unless the file is there. So a lost one is had
// again by a new start, for which one needs the stores anyway.
func (a *app) firstToken(ctx context.Context, d *daemon.Daemon, path string) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // before the token: no owner is without its secret
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the first token: %w", err)
	}
	made, err := d.OwnerToken(ctx)
	if err == nil {
		_, err = fmt.Fprintln(file, made.Secret)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(fmt.Errorf("the first token: %w", err), os.Remove(path))
	}
	fmt.Fprintf(a.stderr, "ringfence: the first token, of an owner, is in %s\n", path)
	return nil
}

// stateDir is where a daemon keeps what is its own.
func (o *door) stateDir(a *app) (string, error) {
	dir := o.state
	if dir == "" && a.global.log == "" {
		dir = cmp.Or(a.global.data, "ringfence-data")
	}
	if dir == "" {
		config, err := os.UserConfigDir()
		if err != nil {
			return "", fmt.Errorf("no directory for the first token: %w; name one with --state: %w", err, fault.Invalid)
		}
		dir = filepath.Join(config, "ringfence")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("--state: %w", err)
	}
	return dir, nil
}
