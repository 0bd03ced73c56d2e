package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// How producing goes on after a switch. The records of a key must keep their order, though some of
// them were refused by the sealed storage topic, some are still under way to it, and new ones keep
// coming. So the generation is closed, and everything under way is waited for. Then the refused
// records go to the next storage topic in the order in which they came, then those that came
// meanwhile, and only then the next generation begins.

// Bounds of the records that wait for the end of a switch; more block.
const (
	maxWaiting      = 1 << 16
	maxWaitingBytes = 64 << 20
)

// refused reports whether an error of an append means that the message belongs elsewhere by now: the
// storage topic is sealed, or gone, and may have been retired.
func refused(err error) bool { return errors.Is(err, fault.Sealed) || errors.Is(err, fault.NotFound) }

// refuse takes back a message that a storage topic did not take.
func (g *generation) refuse(m *message, why error) {
	if errors.Is(why, fault.NotFound) {
		g.missing.CompareAndSwap(nil, &why)
	}
	if !m.t.carryOn(g) {
		m.end(Position{}, fmt.Errorf("topic %q: %w", m.t.name, fault.Closed))
		return
	}
	g.mu.Lock()
	g.refused = append(g.refused, m)
	g.mu.Unlock()
	g.leave()
}

// carryOn ends a generation: a goroutine that Close joins carries its messages on. It is false when
// the topic was closed.
func (t *Topic) carryOn(g *generation) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.moving {
		return true
	}
	if !t.aside(func() { t.move(g) }) {
		return false
	}
	g.moving = true
	g.close()
	return true
}

// aside runs f in a goroutine that Close joins; false when the topic was closed.
func (t *Topic) aside(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.moves.Go(f) // joined by Close
	return true
}

// wait queues a message behind the present switch; false when that is over.
func (g *generation) wait(ctx context.Context, t *Topic, m *message) bool {
	size := 0
	for i := range m.recs {
		size += commitlog.RecordBytes(&m.recs[i])
	}
	g.mu.Lock()
	switch {
	case g.over:
		g.mu.Unlock()
		return false
	case len(g.waiting) < maxWaiting && g.bytes+size < maxWaitingBytes:
		g.waiting = append(g.waiting, m)
		g.bytes += size
		g.mu.Unlock()
		return true
	}
	g.mu.Unlock()
	select {
	case <-g.done:
		return false
	case <-ctx.Done():
		m.done(Position{}, fmt.Errorf("topic %q is being switched: %w: %w", t.name, fault.NotDone, ctx.Err()))
		return true
	}
}

// move carries the messages of a closed generation on.
func (t *Topic) move(g *generation) {
	v, err := t.past(g)
	t.noteGone(err)
	select {
	case <-g.drained:
	case <-t.life.Done():
		<-g.drained // the handles are being closed, which ends what is in flight
		err = errors.Join(err, fmt.Errorf("topic %q: %w", t.name, fault.Closed))
	}
	// No lock: nothing is in flight, so nothing more is refused.
	slices.SortStableFunc(g.refused, func(a, b *message) int { return int(int64(a.ticket - b.ticket)) }) // as they came
	next := newGeneration(v)
	next.inflight.Add(1) // keeps it from being drained until all of this is in it
	t.forward(next, g.refused, err)
	for {
		g.mu.Lock()
		batch := g.waiting
		g.waiting, g.bytes = nil, 0
		if len(batch) == 0 {
			g.over = true
			t.gen.Store(next)
			g.mu.Unlock()
			break
		}
		g.mu.Unlock()
		t.forward(next, batch, err)
	}
	close(g.done)
	next.leave()
	t.release()
}

// forward sends messages to the next generation, or fails them with err.
func (t *Topic) forward(next *generation, messages []*message, err error) {
	for _, m := range messages {
		if err != nil {
			m.done(Position{}, err)
			continue
		}
		ticket, ok := next.begin()
		if !ok { // sealed as well by now: its own move takes them all
			next.mu.Lock()
			m.g, m.ticket = next, next.ticket.Add(1)
			next.refused = append(next.refused, m)
			next.mu.Unlock()
			continue
		}
		m.append(t.life, next, ticket)
	}
}

// past finds the view in which the pointer is past the generation, and finishes the switch for that
// if need be. It goes on while the registry does not answer. On an error the view is the old one:
// the next producer tries again.
func (t *Topic) past(g *generation) (*view, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := t.catalog.past(t.life, t.name, t.Document().Life, g.storage)
		if missing := g.missing.Load(); missing != nil && errors.Is(err, errNoNext) { // it was not retired, but deleted
			err = *missing
		}
		if err == nil {
			err = t.Refresh(t.life)
		}
		v := t.view.Load()
		if err == nil && v.doc.Produce > g.storage {
			return v, nil
		}
		if t.life.Err() != nil {
			return v, fmt.Errorf("topic %q: %w", t.name, fault.Closed)
		}
		if errors.Is(err, fault.Conflict) { // moved to another log: here it is over
			return v, fmt.Errorf("%w: %w", fault.Sealed, err)
		}
		if err != nil && !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.Unknown) {
			return v, err
		}
		select {
		case <-time.After(pause):
		case <-t.life.Done():
		}
	}
}
