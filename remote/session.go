package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/remote/core"
	"github.com/ringfence/ringfence/subscription"
)

// Params is what a session is opened with. Either Group or Subscription is set; zero values are the defaults.
type Params struct {
	Group        string // a member session
	Topic        string // of a new group
	From         string // of a new group
	Member       string // the newest start of a name fences the others
	Weight       int
	Zone         string
	Drain        time.Duration // how long a revoked partition may take
	Subscription string        // a worker session

	Window      int
	WindowBytes int64
	TTL         time.Duration
	Within      time.Duration // from the sending of a record to its answer; 0: no bound, of pages ten TTL
	Paged       bool

	Owner string // the ID of the principal that alone may use the session
}

// The bounds of Params.
const (
	maxWindow      = 16384
	maxWindowBytes = 256 << 20
	minTTL, maxTTL = 2 * time.Second, 10 * time.Minute
	maxWithin      = 24 * time.Hour
	maxDrain       = 10 * time.Minute
	defaultDrain   = 10 * time.Second // and that of workers
)

// check sets the defaults and reports every fault.
func (p *Params) check() error {
	p.Window = cmp.Or(p.Window, 256)
	p.WindowBytes = cmp.Or(p.WindowBytes, 8<<20)
	p.TTL = cmp.Or(p.TTL, 30*time.Second)
	p.Drain = cmp.Or(p.Drain, defaultDrain)
	if p.Paged {
		p.Within = cmp.Or(p.Within, 10*p.TTL)
	}
	var errs []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("session: "+format+": %w", append(args, fault.Invalid)...))
		}
	}
	demand((p.Group == "") != (p.Subscription == ""), "group %q and subscription %q; expected one of them", p.Group, p.Subscription)
	demand(p.Window >= 1 && p.Window <= maxWindow, "window is %d; expected 1 to %d", p.Window, maxWindow)
	demand(p.WindowBytes >= 1 && p.WindowBytes <= maxWindowBytes, "window_bytes is %d; expected 1 to %d", p.WindowBytes, maxWindowBytes)
	demand(p.TTL >= minTTL && p.TTL <= maxTTL, "ttl is %s; expected %s to %s", p.TTL, minTTL, maxTTL)
	demand(p.Within >= 0 && p.Within <= maxWithin, "answer_within is %s; expected up to %s", p.Within, maxWithin)
	demand(p.Drain >= 0 && p.Drain <= maxDrain, "drain is %s; expected up to %s", p.Drain, maxDrain)
	demand(p.From == "" || p.From == string(consumer.Earliest) || p.From == string(consumer.Latest), "from is %q; expected %q or %q", p.From, consumer.Earliest, consumer.Latest)
	demand(p.Weight >= 0, "weight is %d; expected at least 1 (0: the default)", p.Weight)
	if p.Member != "" {
		errs = append(errs, registry.CheckID("member", p.Member))
	}
	if p.Group != "" {
		errs = append(errs, registry.CheckID("group", p.Group))
	}
	if p.Subscription != "" {
		demand(p.Topic == "" && p.From == "" && p.Member == "" && p.Weight == 0 && p.Zone == "" && p.Drain == defaultDrain, "topic, from, member, weight, zone or drain with a subscription; expected them with a group only")
	}
	return errors.Join(errs...)
}

// Session is a session of a client. Its methods may be called from any goroutine.
type Session struct {
	hub    *Hub
	id     string
	params Params
	pool   *pool
	core   *core.Session // guarded by pool.mu

	posting sync.Mutex // one POST at a time: a repeated one finds what the first one did

	// Guarded by pool.mu:
	attached bool
	waiting  chan struct{} // closed when there are lines; nil: no reader waits
	leave    func()        // ends the member; nil: it has not joined
}

// Open begins a session. It takes part once it was heard: Answer or Page with the number of a line.
func (h *Hub) Open(ctx context.Context, params Params) (*Session, error) {
	if err := params.check(); err != nil {
		return nil, err
	}
	s := &Session{hub: h, id: h.newID(), params: params}
	var of *subscription.Document
	var err error
	if params.Group != "" {
		err = h.checkGroup(ctx, &s.params)
	} else {
		of, err = h.checkSubscription(ctx, params.Subscription)
	}
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fmt.Errorf("the process ends; expected the client to register elsewhere: %w", fault.Unavailable)
	}
	if of != nil {
		s.pool = h.workersOf(of)
	} else {
		s.pool = h.newPool(false)
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.core = s.pool.core.Open(h.now(), core.Config{
		Window: params.Window, WindowBytes: params.WindowBytes, TTL: params.TTL, Within: params.Within, Paged: params.Paged,
	})
	s.pool.sessions[s.core] = s
	h.sessions[s.id] = s
	return s, nil
}

// checkGroup finds faults of a member session that are known before it takes part.
func (h *Hub) checkGroup(ctx context.Context, p *Params) error {
	_, t, err := h.groups.Open(ctx, p.Group)
	switch {
	case err == nil && p.Topic == "":
		p.Topic = t.Document().Name
	case err == nil && p.Topic != t.Document().Name:
		return fmt.Errorf("group %q consumes topic %q; expected no other one, found %q: %w", p.Group, t.Document().Name, p.Topic, fault.Exists)
	case err == nil, !errors.Is(err, fault.NotFound):
		return err
	case p.Topic == "":
		return fmt.Errorf("%w; expected the topic that a new group consumes", err)
	default:
		if _, err := h.groups.Topics.Current(ctx, p.Topic); err != nil {
			return err
		}
	}
	return nil
}

// ID names the session: the start of its process, and 128 random bits.
func (s *Session) ID() string { return s.id }

// Params is what it was opened with, defaults included.
func (s *Session) Params() Params { return s.params }

// wake tells the reader that there are lines; the caller holds pool.mu.
func (s *Session) wake() {
	if s.waiting != nil {
		close(s.waiting)
		s.waiting = nil
	}
}

// wait returns what is closed when there are lines; the caller holds pool.mu.
func (s *Session) wait() <-chan struct{} {
	if s.waiting == nil {
		s.waiting = make(chan struct{})
	}
	return s.waiting
}

// Stream writes the lines of the session, many at a time, until it is over, ctx ends or write fails: the last two are a
// crash of the client. A session has one stream.
func (s *Session) Stream(ctx context.Context, write func(lines []byte) error) error {
	if s.params.Paged {
		return fmt.Errorf("session %q is read in pages; expected no stream: %w", s.id, fault.Invalid)
	}
	var again bool
	s.pool.do(func(now time.Duration) {
		if again = s.attached; !again {
			s.attached = true
			s.core.Attach(now)
		}
	})
	if again {
		return fmt.Errorf("session %q had its stream, and none is resumed; expected the client to register anew: %w", s.id, fault.Conflict)
	}
	defer s.end(core.ByCut)
	var buf []byte
	for {
		var lines []core.Line
		var news <-chan struct{}
		var over bool
		var at time.Duration
		s.pool.do(func(now time.Duration) {
			at, lines, over = now, s.core.Take(now), s.core.Over() != ""
			if len(lines) == 0 {
				news = s.wait()
			}
		})
		buf = buf[:0]
		for i := range lines {
			buf = s.appendLine(buf, &lines[i], at)
		}
		if len(buf) > 0 {
			if err := write(buf); err != nil {
				return err
			}
			continue
		}
		if over {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Page returns the lines above a number, as soon as there are some, and a beat when the wait is over. A later call for
// the session ends an earlier one, which gets no lines.
func (s *Session) Page(ctx context.Context, after int64, wait time.Duration) ([]byte, error) {
	if !s.params.Paged {
		return nil, fmt.Errorf("session %q is read on its stream; expected no page: %w", s.id, fault.Invalid)
	}
	if wait < 0 || wait > s.params.TTL/3 {
		return nil, fmt.Errorf("wait is %s; expected at most a third of the ttl, %s: %w", wait, s.params.TTL/3, fault.Invalid)
	}
	var lines []core.Line
	var read uint64
	var done bool
	var err error
	var at time.Duration
	var news <-chan struct{}
	fetched := func(now time.Duration) {
		if at = now; !done {
			news = s.wait()
		}
	}
	s.pool.do(func(now time.Duration) {
		if err = s.over(); err == nil {
			lines, read, done, err = s.core.Read(now, after)
		}
		fetched(now)
	})
	over := time.NewTimer(wait)
	defer over.Stop()
	for err == nil && !done {
		last := false
		select {
		case <-news:
		case <-over.C:
			last = true
		case <-ctx.Done():
			last = true // it counts as an end of the wait: what it takes is read again
		}
		s.pool.do(func(now time.Duration) {
			lines, done = s.core.Fetch(now, read, after, last)
			fetched(now)
		})
	}
	if err != nil {
		return nil, err
	}
	var buf []byte
	for i := range lines {
		buf = s.appendLine(buf, &lines[i], at)
	}
	return buf, nil
}

// over is a GoneError when the session is over; the caller holds pool.mu.
func (s *Session) over() error {
	if why := s.core.Over(); why != "" {
		return &GoneError{ID: s.id, Why: why, Retry: retryAfter(why)}
	}
	return nil
}

// Answer takes a POST of answers, and returns the reply. An error says that nothing of it was taken.
func (s *Session) Answer(body []byte) ([]byte, error) {
	post, err := parse(body, s.params.Window)
	if err != nil {
		return nil, err
	}
	s.posting.Lock()
	defer s.posting.Unlock()
	var refused []core.Refusal
	fenced := s.pool.do(func(now time.Duration) {
		if err = s.over(); err == nil {
			refused, err = s.core.Answers(now, post)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, r := range fenced {
		if r.of == s {
			refused = append(refused, core.Refusal{N: r.Line(), Why: core.Fenced})
		}
	}
	return reply(refused), nil
}

// Delete ends the session; what is out is released. A session that is over is a GoneError.
func (s *Session) Delete() error {
	var err error
	s.pool.do(func(now time.Duration) {
		if err = s.over(); err == nil {
			s.core.End(now, core.ByClient)
		}
	})
	return err
}

// depart ends the part that the session takes: what is out may still be answered. A session of workers goes on, and one
// that was never heard is over.
func (s *Session) depart() {
	s.pool.mu.Lock()
	leave, heard := s.leave, s.core.Heard()
	s.pool.mu.Unlock()
	switch {
	case leave != nil:
		leave()
	case !heard:
		s.end(core.ByDrain)
	}
}

func (s *Session) end(why string) {
	s.pool.do(func(now time.Duration) { s.core.End(now, why) })
}

// ended is called once, when the session is over.
func (s *Session) ended(why string, leave func()) {
	h := s.hub
	h.mu.Lock()
	delete(h.sessions, s.id)
	h.gone[s.id] = gone{why, time.Now()}
	if s.pool.workers == nil {
		delete(h.pools, s.pool)
	}
	h.mu.Unlock()
	if p := s.pool; p.workers != nil {
		p.mu.Lock()
		running := p.workers.running
		p.mu.Unlock()
		if !running { // it was never heard
			h.forget(p, false)
		}
	}
	if leave != nil {
		leave()
	}
}
