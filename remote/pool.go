package remote

import (
	"errors"
	"sync"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/remote/core"
	"github.com/ringfence/ringfence/subscription/shard"
)

// pool is what an engine hands its records to: one session of a member, or the workers of a subscription.
type pool struct {
	hub     *Hub
	workers *workers // nil: it is of a member

	mu       sync.Mutex
	core     *core.Pool
	sessions map[*core.Session]*Session
}

// record is a record that has its turn, and the answer that is owed for it.
type record struct {
	core.Record
	of        *Session // that answered it, written by carryOut
	later     *dispatch.Later
	topic     string
	storage   int
	partition int
	offset    int64
	attempt   int
	key       []byte
	value     []byte
	headers   []commitlog.Header
	timestamp int64
}

// recordBytes is what a record takes of a window beyond its key, value and headers: about the names in its line.
const recordBytes = 256

// newRecord copies what r has beyond the return of its handler.
func newRecord(topic string, u *core.Unit, r *dispatch.Record) *record {
	n := &record{
		later: dispatch.NewLater(r), topic: topic, storage: r.Storage, partition: r.Partition, offset: r.Offset, attempt: r.Attempt,
		key: r.Key, value: r.Value, headers: r.Headers, timestamp: r.Timestamp,
	}
	size := recordBytes + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Name) + len(h.Value)
	}
	n.Unit, n.Size, n.Data = u, size, n
	return n
}

// do lets f change the core, and carries out what comes of it. It returns the records whose answers the engine
// refused.
func (p *pool) do(f func(now time.Duration)) (fenced []*record) {
	p.mu.Lock()
	f(p.hub.now())
	effects := p.core.Effects()
	for _, e := range effects {
		if e.Kind == core.Wake {
			if s := p.sessions[e.Session]; s != nil {
				s.wake()
			}
		}
	}
	p.mu.Unlock()
	for i := range effects {
		if r := p.carryOut(&effects[i]); r != nil {
			fenced = append(fenced, r)
		}
	}
	return fenced
}

// carryOut does what the core asks for, without the lock: engines and groups have their own.
func (p *pool) carryOut(e *core.Effect) *record {
	switch e.Kind {
	case core.Answer:
		r := e.Record.Data.(*record) //nolint:forcetypeassert // nothing else is offered
		if !errors.Is(r.later.Answer(answer(&e.Outcome)), fault.Fenced) || e.Session == nil {
			return nil
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		e.Session.Refused(r.Line())
		r.of = p.sessions[e.Session]
		return r
	case core.Join:
		p.session(e.Session).join()
	case core.Ended:
		s := p.session(e.Session)
		p.mu.Lock()
		delete(p.sessions, e.Session)
		why, leave := e.Session.Over(), s.leave
		p.mu.Unlock()
		s.ended(why, leave)
	case core.Wake:
	}
	return nil
}

func (p *pool) session(of *core.Session) *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions[of]
}

var errReleased = errors.New("the session gave the record back")

// answer is an outcome as a handler returns it.
func answer(o *core.Outcome) error {
	switch o.How {
	case core.Done:
		return nil
	case core.Released:
		return shard.Uncounted(errReleased, o.Pause)
	}
	err := errors.New(o.Error)
	if o.Error == "" {
		err = errors.New("the session said no more than that it failed")
	}
	switch {
	case o.Permanent:
		return shard.Permanent(err)
	case o.Outage:
		err = shard.Outage(err)
	}
	if o.Pause > 0 {
		err = shard.RetryAfter(err, o.Pause)
	}
	return err
}

// offer leaves a record with the pool, which answers later.
func (p *pool) offer(topic string, u *core.Unit, r *dispatch.Record, last bool) error {
	n := newRecord(topic, u, r)
	n.Last = last
	r.AnswerLater(n.later)
	p.do(func(now time.Duration) { p.core.Offer(now, &n.Record) })
	return nil
}
