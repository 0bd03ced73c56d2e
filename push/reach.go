package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/shard"
)

// A process may be the only one that can't reach an endpoint: its --allow-net does not have the address, its host has no
// route, or doesn't resolve the name. Its shards would stand still while those of others are delivered. So it leaves the
// subscription as long as there is another member, and comes back once the endpoint can be reached from here, or no
// member is left: the last one stays. Such an attempt sent nothing, is an outage (unreached), and counts for no record.

// errUnreachable ends a membership: the endpoint can't be reached from here.
var errUnreachable = errors.New("the endpoint can't be reached from this process")

// reachAgain is how often a process that has left looks whether it can come back, and one that can't reach the endpoint,
// whether there is another member.
const reachAgain = 5 * time.Second

// ownFault reports whether a connection failed by a fault of this side: the name was not resolved, there is no route, or
// (Invalid) the address may not be dialed.
func ownFault(err error) bool {
	var name *net.DNSError
	return errors.As(err, &name) || errors.Is(err, fault.Invalid) || errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH)
}

// reach opens a connection to the endpoint, and closes it.
func (e *Endpoint) reach(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, e.timeout)
	defer stop()
	u := e.request.URL
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	c, err := e.transport.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return err
	}
	return c.Close()
}

// membership runs a member of a subscription, and ends it with errUnreachable when others can deliver what this process
// can't.
func (s *server) membership(ctx context.Context, d *api.Subscription, e *Endpoint) error {
	opts := s.opts.Subscribe
	opts.Target = s.target(d)
	opts.ID = d.ID // the next one of its name has another endpoint
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	var watching sync.WaitGroup
	watching.Go(func() { // joined below
		for {
			select {
			case <-ctx.Done():
				return
			case why := <-e.unreached:
				if n, err := s.members(ctx, d); err == nil && n > 1 {
					leave(fmt.Errorf("%w: %w", errUnreachable, why))
				}
			}
			pause(ctx, reachAgain)
		}
	})
	err := s.rf.Subscribe(ctx, d.Name, e.Deliver, &opts)
	why := context.Cause(ctx)
	leave(nil)
	watching.Wait()
	if err == nil && errors.Is(why, errUnreachable) {
		return why
	}
	return err
}

// unableError says that this process can deliver nothing to an endpoint: its --allow-net lacks the address in the URL, or a
// file with a secret can't be used.
type unableError struct{ error }

// Unwrap serves errors.Is.
func (e unableError) Unwrap() error { return e.error }

// Outage and Unreached serve the circuit: no record is at fault.
func (unableError) Outage() bool { return true }

// Unreached serves IsUnreached.
func (unableError) Unreached() bool { return true }

// standIn is a member that delivers nothing, as long as no other process is one: so the shards have an owner, whose
// checkpoints tell all hosts why they stand still. It leaves when another member is there, and when it can deliver.
func (s *server) standIn(ctx context.Context, d *api.Subscription, why unableError) {
	if n, err := s.members(ctx, d); n > 0 || err != nil && !errors.Is(err, ringfence.ErrNotFound) {
		return
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	var watching sync.WaitGroup
	watching.Go(func() { // joined below
		defer leave()
		for ctx.Err() == nil {
			pause(ctx, reachAgain+rand.N(reachAgain)) // of several, one leaves first
			if n, err := s.members(ctx, d); err == nil && n > 1 {
				return
			}
			if e, err := s.endpoint(d); err == nil {
				e.Close()
				return
			}
		}
	})
	why.error = errors.New(strings.TrimSuffix(why.Error(), ": "+fault.Invalid.Error()))
	opts := s.opts.Subscribe
	opts.Target, opts.ID = shard.Refuse(why), d.ID
	err := s.rf.Subscribe(ctx, d.Name, func(context.Context, *ringfence.Message) error { return why }, &opts)
	if err != nil && ctx.Err() == nil {
		s.opts.Config.Logger.Warn("this process could not take the shards of a subscription that it can't deliver", "subscription", d.Name, "error", err)
	}
	leave()
	watching.Wait()
}

// members counts the live members of a subscription.
func (s *server) members(ctx context.Context, d *api.Subscription) (int, error) {
	now, err := s.rf.Admin().GetSubscription(ctx, d.Name)
	if err != nil {
		return 0, err
	}
	g, err := s.rf.Admin().DescribeGroup(ctx, now.Group())
	if err != nil {
		return 0, err
	}
	return len(g.Members), nil
}

// comeBack waits until the endpoint can be reached from here, or no member is left.
func (s *server) comeBack(ctx context.Context, d *api.Subscription, e *Endpoint, log *slog.Logger, why error) {
	log.Warn("this process leaves the subscription to its other members, and comes back when it reaches the endpoint or they are gone", "error", why)
	for ctx.Err() == nil {
		pause(ctx, reachAgain+rand.N(reachAgain)) // of several that left, one comes back first
		n, err := s.members(ctx, d)
		if alone := err == nil && n == 0 || errors.Is(err, ringfence.ErrNotFound); alone || e.reach(ctx) == nil {
			log.Info("this process delivers the subscription again", "other_members", n)
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
