package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/subscription/shard"
)

// ServeOptions are the options of Serve; the zero value of each field is its default.
type ServeOptions struct {
	// Config is what all endpoints share: AllowNet, TokenFile, CloudEvents, Files, TLS, Resolver, Logger and the
	// time-outs; a definition may have its own Timeout.
	Config    Config
	Subscribe ringfence.SubscribeOptions
	// Endpoints are the limits of endpoints, by origin ("https://api.example.com"): for all subscriptions that
	// go there together, and all deliverers with the same limits.
	Endpoints map[string]Limits
	// Delivers gets the names of the subscriptions with an endpoint, sorted, when they are known and whenever they have
	// changed; nil: it is not. It must not block.
	Delivers func(names []string)
	Poll     time.Duration // how often the definitions are read without a hint of a change; default 30 s
}

// For prepares the endpoint of a subscription. It pauses the subscription when the endpoint wants nothing more, or refuses
// its first records. ErrInvalid when it has none, and as New.
func For(rf *ringfence.Client, d *api.Subscription, c Config) (*Endpoint, error) {
	if d.Endpoint == nil {
		return nil, fmt.Errorf("subscription %q has no endpoint: %w", d.Name, fault.Invalid)
	}
	c.URL, c.Subscription, c.SecretFile = d.Endpoint.URL, d.Name, d.Endpoint.SecretFile
	c.CloudEvents = c.CloudEvents || d.Endpoint.CloudEvents
	if t := d.Endpoint.TimeoutMS; t > 0 {
		c.Timeout = time.Duration(t) * time.Millisecond
	}
	if c.Pause == nil {
		c.ResumedAt = d.ResumedAt
		c.Pause = func(ctx context.Context, said string, first bool, resumed api.Time) (*api.Subscription, error) {
			return rf.Admin().PauseSubscription(ctx, d.Name, &admin.PauseSubscriptionOptions{
				Reason: strings.ToValidUTF8(said[:min(len(said), shownBytes)], ""), ID: d.ID, By: subscription.ByEndpoint, Untaken: first, ResumedAt: &resumed,
			})
		}
		c.Took = func(ctx context.Context) error { return rf.Admin().NoteTaken(ctx, d.Name, d.ID, d.Endpoint.URL) }
	}
	e, err := New(c)
	if err == nil && (d.Endpoint.GiveUpFirst || d.TakenAt != "") {
		e.taken.Store(true)
	}
	return e, err
}

// Serve delivers all subscriptions that have an endpoint, until ctx ends: then it drains and returns nil.
// It shares each with other deliverers, and follows the definitions: a new subscription is delivered from
// then on, a changed one by its new definition, and a deleted one ends. A subscription that can't be
// delivered is logged and tried again, and stops no other one.
//
// An unreadable file of tokens or of TLS, or wrong Endpoints (ErrInvalid), is an error at once.
func Serve(ctx context.Context, rf *ringfence.Client, opts *ServeOptions) error {
	s, err := newServer(rf, opts)
	if err != nil {
		return err
	}
	defer s.end()
	s.watch(ctx, s.follow)
	return nil
}

// newServer makes a server that delivers nothing yet.
func newServer(rf *ringfence.Client, opts *ServeOptions) (*server, error) {
	s := &server{rf: rf, running: map[string]*delivery{}, ended: make(chan struct{}, 1)}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Config.Logger == nil {
		s.opts.Config.Logger = slog.New(slog.DiscardHandler)
	}
	if s.opts.Poll <= 0 {
		s.opts.Poll = lookEvery
	}
	if _, err := tokenFor(s.opts.Config.TokenFile, ""); err != nil {
		return nil, err
	}
	if err := s.opts.Config.Files.Check(); err != nil {
		return nil, err
	}
	var err error
	s.targets, err = targetsOf(s.opts.Endpoints)
	return s, err
}

// end waits for all deliveries.
func (s *server) end() {
	s.all.Wait()
	for _, t := range s.targets {
		t.End()
	}
}

// watch calls follow whenever definitions may have changed, until ctx ends.
func (s *server) watch(ctx context.Context, follow func(context.Context) (read bool)) {
	var hints <-chan struct{} // nil: no hints
	for ctx.Err() == nil {
		if hints == nil {
			hints, _ = subscription.Watch(ctx, s.rf.Registry()) // follow, which reads, reports an error
		}
		look := s.opts.Poll
		if read := follow(ctx); !read || hints == nil {
			look = min(look, lookAgain)
		}
		hints = s.wait(ctx, hints, look)
	}
}

const (
	lookEvery = 30 * time.Second
	lookAgain = 2 * time.Second // while definitions can't be read or watched
)

// wait waits until something may have changed; nil when hints have ended.
func (s *server) wait(ctx context.Context, hints <-chan struct{}, look time.Duration) <-chan struct{} {
	select {
	case <-ctx.Done():
	case <-time.After(look):
	case <-s.ended:
	case _, ok := <-hints:
		if !ok {
			return s.wait(ctx, nil, min(look, lookAgain))
		}
	}
	return hints
}

// server delivers subscriptions; its loop owns its fields.
type server struct {
	rf      *ringfence.Client
	opts    ServeOptions
	running map[string]*delivery
	targets map[string]*shard.Limiter // endpoints that have limits, by origin
	ended   chan struct{}             // a delivery has
	all     sync.WaitGroup
	names   []string // that were told
	told    bool
	blind   bool // the definitions can't be read, which was logged
}

// delivery is one subscription that is delivered.
type delivery struct {
	of   identity
	stop context.CancelFunc
	over chan struct{}
}

// identity is what a delivery is of: when it changes, the delivery begins anew. All other settings its member follows.
type identity struct {
	endpoint api.Endpoint
	id       string
}

// follow starts and stops deliveries by the definitions. Unreadable definitions stop nothing; then read is
// false.
func (s *server) follow(ctx context.Context) (read bool) {
	all, _, err := s.list(ctx, "what runs goes on")
	for name, r := range s.running {
		select {
		case <-r.over:
			delete(s.running, name)
		default:
		}
	}
	defined := map[string]bool{}
	delivered := []string{}
	for _, d := range all {
		if d.Damaged != "" {
			defined[d.Name] = true // what runs goes on
		}
		if d.Endpoint == nil {
			continue
		}
		defined[d.Name] = true
		delivered = append(delivered, d.Name)
		now := identity{*d.Endpoint, d.ID}
		switch r := s.running[d.Name]; {
		case r == nil:
			s.start(ctx, d, now)
		case r.of != now:
			r.stop() // it begins anew when it has ended
		}
	}
	for name, r := range s.running {
		if err == nil && !defined[name] {
			r.stop()
		}
	}
	if err == nil {
		s.tell(delivered)
	}
	return err == nil
}

// tell tells, by name, which subscriptions have an endpoint, when these are others than before.
func (s *server) tell(names []string) {
	if s.opts.Delivers == nil || s.told && slices.Equal(names, s.names) {
		return
	}
	s.told, s.names = true, names
	s.opts.Delivers(names)
}

// list lists the definitions, and counts them by endpoint when all can be read; else it logs so, and what goes on meanwhile.
func (s *server) list(ctx context.Context, meanwhile string) (all []*api.Subscription, complete bool, err error) {
	all, err = s.rf.Admin().ListSubscriptions(ctx)
	unread := err
	for _, d := range all {
		if d.Damaged != "" {
			unread = errors.Join(unread, errors.New(d.Damaged))
		}
	}
	if unread == nil {
		s.count(all)
	} else if !s.blind && ctx.Err() == nil {
		s.opts.Config.Logger.Error("not all definitions of subscriptions can be read", "meanwhile", meanwhile, "error", unread)
	}
	s.blind = unread != nil
	return all, unread == nil, err
}

func (s *server) start(ctx context.Context, d *api.Subscription, now identity) {
	inner, stop := context.WithCancel(ctx)
	r := &delivery{of: now, stop: stop, over: make(chan struct{})}
	s.running[d.Name] = r
	s.all.Go(func() { // joined by Serve
		defer stop()
		s.deliver(inner, d)
		close(r.over)
		select {
		case s.ended <- struct{}{}:
		default:
		}
	})
}

const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// deliver delivers one subscription, again and again when that fails, until ctx ends.
func (s *server) deliver(ctx context.Context, d *api.Subscription) {
	log := s.opts.Config.Logger.With("subscription", d.Name)
	log.Info("the subscription is delivered", "endpoint", subscription.Endpoint(*d.Endpoint).Shown().URL)
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, longestPause) {
		began := time.Now()
		err := s.subscribe(ctx, d)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ringfence.ErrNotFound):
			log.Info("the subscription is not delivered any more", "reason", err)
		default:
			log.Error("the subscription can't be delivered; it is tried again", "error", err)
		}
		if time.Since(began) > longestPause {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		var unable unableError
		if errors.As(err, &unable) {
			s.standIn(ctx, d, unable)
		}
	}
}

func (s *server) subscribe(ctx context.Context, d *api.Subscription) error {
	e, err := s.endpoint(d)
	if err != nil {
		return unableError{err}
	}
	defer e.Close()
	for {
		err := s.membership(ctx, d, e)
		if !errors.Is(err, errUnreachable) || ctx.Err() != nil {
			return err
		}
		s.comeBack(ctx, d, e, s.opts.Config.Logger.With("subscription", d.Name), err)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// endpoint is a separate call, to free its stack space while the subscription is delivered.
//
//go:noinline
func (s *server) endpoint(d *api.Subscription) (*Endpoint, error) {
	return For(s.rf, d, s.opts.Config)
}
