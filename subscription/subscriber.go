package subscription

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/shard"
)

// A member of a subscription follows its definition: it joins the group of each shard set that has to run, and
// takes those steps of a reshard that no shard takes. Any member can take each of these, and twice: the
// definition changes by compare and set, and a dead member leaves nothing to clean up but steps that the others
// take at their next look.

// subscriber is a member of a subscription: of the shard set that delivers, and during a reshard, of the one
// before it.
type subscriber struct {
	of       *Subscriptions
	handlers consumer.Handlers
	opts     Options
	limits   *shard.Limiter
	teller   *dispatch.Teller
	news     chan struct{} // the definition may have changed
	ended    chan *member

	mu   sync.Mutex
	def  *Document // as it is stored
	sets map[string]*member
}

// member is one of a set.
type member struct {
	of   *shards
	set  string
	stop context.CancelFunc
	err  error
}

// reshardEvery is how often a member looks whether a reshard is over.
const reshardEvery = 100 * time.Millisecond

func newSubscriber(c *Subscriptions, d *Document, h consumer.Handlers, opts Options) *subscriber {
	log := c.logger.With("subscription", d.Name)
	failed := opts.Failed
	if failed == nil {
		failed = func(dispatch.Failure) {}
	}
	m := &subscriber{
		of: c, handlers: h, opts: opts, limits: shard.NewLimiter(log), teller: dispatch.NewTeller(log, opts.Failed),
		news: make(chan struct{}, 1), ended: make(chan *member), sets: map[string]*member{},
	}
	m.limits.Tells(func(f dispatch.Failure) {
		f.Topic = d.Topic
		failed(f)
	})
	m.opts.Failed = failed
	m.heard(d)
	return m
}

// heard takes the definition as it is stored.
func (m *subscriber) heard(d *Document) {
	m.mu.Lock()
	was := m.def != nil && m.def.Paused != nil
	m.def = d
	for _, set := range m.sets {
		set.of.heed(d)
	}
	m.mu.Unlock()
	m.limits.SetRate(d.Rate())
	switch paused := d.Paused != nil; {
	case paused == was:
	case paused && d.Paused.By == ByEndpoint:
		m.of.logger.Warn("an answer of the endpoint has paused the subscription, until it is resumed", "subscription", d.Name, "answer", d.Paused.Reason)
		m.opts.Failed(dispatch.Failure{Outcome: dispatch.Paused, Topic: d.Topic, Offset: -1, Err: errors.New(d.Paused.Reason)})
	case paused:
		m.of.logger.Info("the subscription is paused", "subscription", d.Name, "by", d.Paused.By, "reason", d.Paused.Reason)
	default:
		m.of.logger.Info("the subscription goes on", "subscription", d.Name)
	}
	m.wake()
}

// wake makes the member look at everything again.
func (m *subscriber) wake() {
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// run is a member of the sets that have to run, until ctx ends or one of them fails.
func (m *subscriber) run(ctx context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		for len(m.sets) > 0 {
			err = errors.Join(err, m.left(<-m.ended))
		}
	}()
	pause := endEvery
	for look := (<-chan time.Time)(nil); ; look = nil {
		m.mu.Lock()
		d := m.def
		m.mu.Unlock()
		err := m.follow(ctx, d)
		if errors.Is(err, fault.NotFound) { // as the registry went back
			if d, err = m.of.bring(ctx, d); err == nil {
				m.heard(d)
				err = m.follow(ctx, d)
			}
		}
		if err != nil {
			return consumer.UnlessEnded(ctx, err)
		}
		m.of.sweepSets(ctx, d)
		switch {
		case d.Turning():
			m.of.turnOn(ctx, d)
			look = time.After(reshardEvery)
		case m.hasRead(d):
			m.of.growOn(ctx, d)
			look, pause = time.After(pause), min(pause+pause/4, growEvery) // so that keys wait a quarter longer than for the last shard
		default:
			pause = endEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.news:
		case <-look:
		case set := <-m.ended:
			asked := set.of.retired.Load()
			if set.of.lost.Load() {
				asked = true
				m.of.reopen(d)
				_ = hint(ctx, time.After(followRetry)) // a log may not show for a moment what it has
			}
			if err := m.left(set); err != nil && !asked || ctx.Err() == nil && !asked {
				return err
			}
		}
	}
}

// left notes that a member of a set has ended, and returns why.
func (m *subscriber) left(set *member) error {
	set.stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, set.set)
	return set.err
}

// follow starts the sets that are to run, ends those that are closing, and stops those that are needed no
// more.
func (m *subscriber) follow(ctx context.Context, d *Document) error {
	serving := d.Serving()
	for _, as := range serving {
		set := as.Set()
		m.mu.Lock()
		have := m.sets[set.ID]
		m.mu.Unlock()
		if have == nil {
			var err error
			if have, err = m.join(ctx, as); err != nil {
				return err
			}
		}
		if was, ok := d.Closing(); ok && was.ID == set.ID {
			have.of.end(d.Set())
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, set := range m.sets {
		if !slices.ContainsFunc(serving, func(as *Document) bool { return as.Set().ID == id }) {
			set.of.retired.Store(true)
			set.stop()
		}
	}
	return nil
}

// join becomes a member of the set that delivers by a definition.
func (m *subscriber) join(ctx context.Context, as *Document) (*member, error) {
	c := m.of
	if err := c.CheckTopic(ctx, as); err != nil { // of this set: the definition may change at any time
		return nil, err
	}
	j, err := c.journalsOf(ctx, as)
	if err != nil {
		return nil, err
	}
	main, err := c.topics.Catalog().Get(ctx, as.Topic)
	if err != nil {
		return nil, err
	}
	storage := as.Set().Storage
	of := &shards{
		journals: j, of: c, partitions: main.Storage[storage].Partitions, opts: m.opts, drain: m.opts.DrainTimeout, logger: c.logger, limiter: m.limits, teller: m.teller,
		enough: make(chan struct{}), last: make(chan struct{}), sealed: make(chan struct{}), news: m.wake,
	}
	if of.drain == 0 {
		of.drain = 10 * time.Second
	}
	of.from = consumer.From(as.From)
	switch before := as.Before(); {
	case before == nil:
	case before.Gone(main):
		of.from = consumer.Earliest // it never began, or the registry would know that its storage topic is needed
		c.tellUnheeded(ctx, before)
	default:
		of.from = consumer.Earliest // where the set before has ended
		of.parents = parentsOf(main, before.Set(), as.Set())
		if of.before, err = c.journalsOf(ctx, before); errors.Is(err, fault.NotFound) {
			err = nil // the set is needed no more
		}
	}
	if err == nil {
		of.group, err = protocol.NewGroup(c.reg, as.Group())
	}
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	of.leave = stop
	set := &member{of: of, set: as.Set().ID, stop: stop}
	m.mu.Lock()
	m.sets[set.set] = set
	of.heed(m.def)
	if was, ok := m.def.Closing(); ok && was.ID == set.set {
		of.end(m.def.Set()) // before it begins anything
	}
	m.mu.Unlock()
	go func() { // joined by run, which takes it from ended
		set.err = c.groups.Consume(running, *m.membership(as, of))
		m.ended <- set
	}()
	return set, nil
}

// membership runs the member of a set in its group. It is a separate call, to free its stack space for the life
// of the member.
//
//go:noinline
func (m *subscriber) membership(as *Document, of *shards) *consumer.Member {
	o := &m.opts
	return &consumer.Member{
		Topic: as.Topic, Handlers: m.handlers, From: of.from, Around: of.run, Seen: of.seen,
		Layout: consumer.Shards(as.Set().Storage, as.Set().Shards, of.partitions),
		Group: group.Config{
			Group: as.Group(), Member: o.Member, SessionTTL: o.SessionTTL, DrainTimeout: o.DrainTimeout,
			ProgressTimeout: o.HandlerTimeout, Events: o.Events,
		},
		Engine: dispatch.Config{
			Concurrency: o.Concurrency, OrderBy: o.orderBy(as), ProgressTimeout: o.HandlerTimeout, DrainTimeout: o.DrainTimeout,
		},
	}
}

// turnOn takes the next step of a reshard that no shard takes: it makes the topics of a set, or sees that all
// shards have taken over. A failure is tried again.
func (c *Subscriptions) turnOn(ctx context.Context, d *Document) {
	_, err := c.Advance(ctx, d)
	if was, closing := d.Closing(); err == nil && closing {
		var all bool
		if all, err = c.tookOver(ctx, d); err == nil && all {
			_, err = c.Retire(ctx, d, was.ID)
		}
	}
	if err != nil && ctx.Err() == nil {
		c.logger.Warn("a step of the reshard failed; it is tried again", "subscription", d.Name, "error", err)
	}
}

// tookOver reports whether each shard of the set that delivers has its first checkpoint.
func (c *Subscriptions) tookOver(ctx context.Context, d *Document) (bool, error) {
	g, err := protocol.NewGroup(c.reg, d.Group())
	if err != nil {
		return false, err
	}
	st, err := g.Load(ctx, true)
	if err != nil || st.Meta == nil || len(st.Units) < d.Set().Shards {
		return false, err
	}
	return !slices.ContainsFunc(st.Units[:d.Set().Shards], func(u protocol.Unit) bool { return u.Checkpoint == nil }), nil
}

// sweepSets removes the remains of sets that were retired long ago.
func (c *Subscriptions) sweepSets(ctx context.Context, d *Document) {
	for _, set := range d.Spent(time.Now()) {
		err := c.deleteGroup(ctx, set)
		if err == nil {
			err = c.Forget(ctx, d, set)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, fault.Conflict) {
			c.logger.Warn("what is left of a retired shard set could not be removed; it is tried again", "subscription", d.Name, "group", set.Group(), "error", err)
		}
	}
}

// tellUnheeded logs parked records that no set takes over: those of a set whose storage topic was retired, as
// the registry went back and had forgotten that the set was at work.
func (c *Subscriptions) tellUnheeded(ctx context.Context, set *Document) {
	j, err := c.journalsOf(ctx, set)
	if errors.Is(err, fault.NotFound) {
		return // the set is needed no more
	}
	for shard := 0; shard < set.Set().Shards && err == nil; shard++ {
		var b commitlog.Bounds
		if b, err = j.Journal.Bounds(ctx, shard); err == nil && b.First < b.Next {
			c.logger.Error("a storage topic was retired of which a shard had parked records, as the registry had forgotten it: these are not delivered (ringfence tail shows them)",
				"subscription", set.Name, "storage", set.Set().Storage, "topic", set.JournalTopic(), "partition", shard, "records", b.Next-b.First)
		}
	}
	if err != nil && ctx.Err() == nil {
		c.logger.Warn("what a shard set has left whose storage topic was retired could not be read", "subscription", set.Name, "topic", set.JournalTopic(), "error", err)
	}
}
