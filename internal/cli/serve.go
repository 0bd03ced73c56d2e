package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/rest"
	"github.com/ringfence/ringfence/push"
	"github.com/ringfence/ringfence/subscription"
)

func (a *app) serveCommand() *cobra.Command {
	var out outbound
	var api door
	var opts push.ServeOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Deliver all subscriptions that have an endpoint",
		Long: `Deliver all subscriptions that have an endpoint, as "ringfence subscription run" does
with one. Start it on as many hosts as you like: they share the shards, and what one
of them leaves the others take over. It follows the subscriptions as they are made,
changed and deleted; one that can't be delivered stops no other.

Endpoints on this host or in private networks get nothing unless --allow-net has their
address. SIGTERM, SIGINT and SIGHUP drain.`,
		Example: `  ringfence serve
  ringfence serve --allow-net 10.1.0.0/16 --allow-net fd00::/8 --token-file /etc/ringfence/tokens`,
	}
	fl := cmd.Flags()
	out.register(fl)
	api.register(fl)
	fl.IntVar(&opts.Subscribe.Concurrency, "concurrency", 0, "records delivered at once in a shard, each of another key (default 16)")
	fl.DurationVar(&opts.Subscribe.DrainTimeout, "drain-timeout", 0, "how long running deliveries may take when a shard moves or at the end (default 10s)")
	sessionFlag(fl, &opts.Subscribe.SessionTTL)
	bounded(fl, 1, dispatch.MostInFlight, "concurrency")
	cmd.PreRunE = checked(func() (err error) {
		opts.Endpoints, err = out.limits.parse()
		return errors.Join(out.check(), api.check(), err)
	})
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, _ []string) error {
		var err error
		if opts.Config, err = out.config(a.logger()); err != nil {
			return err
		}
		opts.Delivers = a.tellDelivered
		var resting sync.WaitGroup
		stopped, stop := context.WithCancel(ctx)
		answered, err := api.open(stopped, a, rf)
		if err != nil {
			stop()
			return err
		}
		resting.Go(func() { new(rest.Rester).Run(stopped) }) // joined below
		err = push.Serve(ctx, rf, &opts)
		stop()
		resting.Wait()
		err = errors.Join(err, answered())
		if cause := context.Cause(ctx); err == nil && !errors.Is(cause, errSignalled) {
			return cause
		}
		return err
	})
	return cmd
}

// tellDelivered says on stderr which subscriptions the daemon delivers.
func (a *app) tellDelivered(names []string) {
	const most = 20
	switch n := len(names); {
	case n == 0:
		fmt.Fprintf(a.stderr, "ringfence: no subscription has an endpoint, so there is nothing to deliver yet; \"%s subscription create NAME --topic TOPIC --endpoint URL\" makes one\n", a.program())
	case n > most:
		fmt.Fprintf(a.stderr, "ringfence: %d subscriptions to deliver: %s …\n", n, a.stderr.Line(strings.Join(names[:most], ", ")))
	default:
		fmt.Fprintf(a.stderr, "ringfence: %s to deliver: %s\n", plural(n, "subscription"), a.stderr.Line(strings.Join(names, ", ")))
	}
}

// outbound is where deliveries may go, and what they show there.
type outbound struct {
	allow  []string
	tokens string
	events bool
	tls    push.TLSFiles
	limits endpointLimits
	nets   []netip.Prefix
}

func (o *outbound) register(fl *pflag.FlagSet) {
	fl.StringSliceVar(&o.allow, "allow-net", nil, "deliver also to endpoints in this `network` (CIDR) or at this address, although it is private, special or this host; may be repeated")
	fl.StringVar(&o.tokens, "token-file", "", "`file` with lines of an origin and the bearer token for it: https://api.example.com 3f9c")
	fl.BoolVar(&o.events, "cloudevents", false, "make each request a CloudEvent 1.0 in binary mode, also of subscriptions that do not say so")
	fl.StringVar(&o.tls.CertFile, "cert-file", "", "`file` with the client certificates for endpoints; a line has an origin, a certificate file and a key file: https://api.example.com cert.pem key.pem")
	fl.StringVar(&o.tls.CAFile, "ca-file", "", "`file` with certificates (PEM) to trust at endpoints, besides those of the system")
	o.limits.register(fl)
}

// config reads the files that deliveries need.
func (o *outbound) config(log *slog.Logger) (push.Config, error) {
	return push.Config{AllowNet: o.nets, TokenFile: o.tokens, CloudEvents: o.events, Files: o.tls, Logger: log}, o.tls.Check()
}

// used says whether any of the flags was given.
func (o *outbound) used() bool {
	return len(o.allow) > 0 || o.tokens != "" || o.events || o.tls != push.TLSFiles{} || len(o.limits.rates)+len(o.limits.concurrencies) > 0
}

func (o *outbound) check() error {
	o.nets = nil
	var errs []error
	for _, s := range o.allow {
		n, err := push.ParseNet(s)
		if err != nil {
			err = fmt.Errorf("--allow-net: %w", err)
		}
		o.nets, errs = append(o.nets, n), append(errs, err)
	}
	for flag, path := range map[string]string{"ca-file": o.tls.CAFile, "cert-file": o.tls.CertFile, "token-file": o.tokens} {
		if _, err := os.Stat(path); path != "" && errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("--%s: %w: %w", flag, err, fault.NotFound))
		}
	}
	return errors.Join(errs...)
}

func endpointFlags(fl *pflag.FlagSet, e *admin.EndpointConfig) {
	fl.StringVar(&e.URL, "endpoint", "", "`URL` that each record is posted to by \"ringfence serve\" and \"subscription run\"")
	fl.DurationVar(&e.Timeout, "timeout", 0, "how long one attempt may take at the endpoint (default 30s); for this command itself set RINGFENCE_TIMEOUT")
	fl.StringVar(&e.SecretFile, "secret-file", "", "`file` with the secret that requests to the endpoint are signed with, or two during a rotation; its path is stored")
	fl.BoolVar(&e.CloudEvents, "cloudevents", false, "make each request to the endpoint a CloudEvent 1.0 in binary mode")
	fl.BoolVar(&e.GiveUpFirst, "give-up-first", false, "give records up that the endpoint refuses with 401, 403 or 404 before it has taken any, in place of a pause of the subscription")
}

// checkEndpoint looks at the flags of an endpoint, which may be there already, and at its file.
func checkEndpoint(e *admin.EndpointConfig, there bool) error {
	var errs []error
	if e.URL != "" {
		_, err := subscription.CheckURL(e.URL)
		errs = append(errs, err)
	} else if !there && (e.Timeout != 0 || e.SecretFile != "" || e.CloudEvents || e.GiveUpFirst) {
		errs = append(errs, fmt.Errorf("--timeout, --secret-file, --cloudevents and --give-up-first are of an endpoint: expected --endpoint: %w", fault.Invalid))
	}
	if e.SecretFile != "" {
		path, err := filepath.Abs(e.SecretFile)
		if err == nil {
			e.SecretFile, err = path, push.CheckSecrets(path)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// runsCommand reports whether the flags have the records taken by a command, or printed: then nothing goes to the
// endpoint of the subscription.
func runsCommand(d *api.Subscription, f *consumeFlags, out *outbound, printed bool) (bool, error) {
	if d.Endpoint != nil && f.exec == "" && !printed {
		return false, nil
	}
	if !out.used() {
		return true, nil
	}
	why := fmt.Sprintf("subscription %q has none", d.Name)
	if d.Endpoint != nil {
		why = "--exec and --print take the records in its place"
	}
	return true, fmt.Errorf("--allow-net, --token-file, --cloudevents, --cert-file, --ca-file, --endpoint-rate and --endpoint-concurrency are for the delivery to an endpoint, and nothing goes to one here, as %s: %w", why, fault.Invalid)
}

// post delivers a subscription to its endpoint.
func (a *app) post(ctx context.Context, rf *ringfence.Client, name string, out *outbound, opts *ringfence.SubscribeOptions) error {
	cfg, err := out.config(a.logger())
	if err != nil {
		return err
	}
	limits, err := out.limits.parse()
	if err != nil {
		return err
	}
	return push.Run(ctx, rf, name, &push.ServeOptions{Config: cfg, Subscribe: *opts, Endpoints: limits})
}

// endpointLimits are the flags that bound what goes to one endpoint.
type endpointLimits struct{ rates, concurrencies []string }

func (l *endpointLimits) register(fl *pflag.FlagSet) {
	fl.StringSliceVar(&l.rates, "endpoint-rate", nil, "`ORIGIN=N`, as https://api.example.com=100: all subscriptions together begin at most N attempts a second at this origin; give every process that delivers the same")
	fl.StringSliceVar(&l.concurrencies, "endpoint-concurrency", nil, "`ORIGIN=N`: all subscriptions together have at most N attempts under way at this origin; each process has at least one")
}

func (l *endpointLimits) parse() (map[string]push.Limits, error) {
	all := map[string]push.Limits{}
	var errs []error
	each := func(flag string, values []string, most int, of func(*push.Limits) *int) {
		for _, v := range values {
			origin, n, err := endpointLimit(flag, v, most)
			limits := all[origin]
			if to := of(&limits); err == nil && *to != 0 {
				err = fmt.Errorf("--%s: %s stands there twice: %w", flag, origin, fault.Invalid)
			} else if err == nil {
				*to = n
				all[origin] = limits
			}
			errs = append(errs, err)
		}
	}
	each("endpoint-rate", l.rates, subscription.MaxRate, func(l *push.Limits) *int { return &l.Rate })
	each("endpoint-concurrency", l.concurrencies, subscription.MaxConcurrency, func(l *push.Limits) *int { return &l.Concurrency })
	return all, errors.Join(errs...)
}

func endpointLimit(flag, v string, most int) (origin string, n int, err error) {
	i := strings.LastIndex(v, "=")
	if i < 0 {
		return "", 0, fmt.Errorf("--%s %q: expected ORIGIN=N, as https://api.example.com=100: %w", flag, v, fault.Invalid)
	}
	if n, err = strconv.Atoi(v[i+1:]); err != nil || n < 1 || n > most {
		return "", 0, fmt.Errorf("--%s %q: expected a number from 1 to %d after the \"=\": %w", flag, v, most, fault.Invalid)
	}
	if origin, err = push.Origin(v[:i]); err != nil {
		return "", 0, fmt.Errorf("--%s: %w", flag, err)
	}
	return origin, n, nil
}
