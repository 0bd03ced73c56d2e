package subscription

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// Pause says since when nothing of a subscription is delivered, and why.
type Pause struct {
	Since  int64  `json:"since"` // Unix ms
	Reason string `json:"reason,omitempty"`
}

// maxReasonBytes bounds what somebody says about a pause.
const maxReasonBytes = 1024

// Pause has a subscription deliver nothing until it is resumed, and returns it as it is stored; one that
// is paused already keeps its reason. With a life, only if it is still the one of that life. ErrNotFound
// when there is none; ErrInvalid for a reason that is too long, or no text.
func (c *Catalog) Pause(ctx context.Context, name, life, reason string) (*Document, error) {
	if len(reason) > maxReasonBytes || !utf8.ValidString(reason) {
		return nil, fmt.Errorf("a reason of %d bytes; expected a text of at most %d: %w", len(reason), maxReasonBytes, fault.Invalid)
	}
	return c.change(ctx, name, func(d *Document) (bool, error) {
		if life != "" && d.Life() != life {
			return false, fmt.Errorf("subscription %q was deleted: %w", name, fault.NotFound)
		}
		if d.Paused != nil {
			return false, nil
		}
		d.Paused = &Pause{Since: time.Now().UnixMilli(), Reason: reason}
		return true, nil
	})
}

// Resume ends a pause, and returns the subscription as it is stored. ErrNotFound when there is none.
func (c *Catalog) Resume(ctx context.Context, name string) (*Document, error) {
	return c.change(ctx, name, func(d *Document) (bool, error) {
		was := d.Paused != nil
		d.Paused = nil
		return was, nil
	})
}

// change stores what f makes of a definition that is ready; nothing when f says false. What was begun with one
// subscription is not done to the next of its name.
func (c *Catalog) change(ctx context.Context, name string, f func(*Document) (bool, error)) (*Document, error) {
	for began := ""; ; {
		d, version, err := c.load(ctx, name)
		if err != nil {
			return nil, err
		}
		if began != "" && d.Life() != began {
			return nil, d.isAnother()
		}
		began = d.Life()
		if d.State != ready {
			return nil, d.notReady()
		}
		change, err := f(d)
		if err == nil && change {
			err = c.store(ctx, d, version)
		}
		if errors.Is(err, errRaced) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return d, nil
	}
}

// isAnother is why nothing is done to a subscription that has the name of the one that was meant.
func (d *Document) isAnother() error {
	return fmt.Errorf("subscription %q was deleted, and another one has its name: %w", d.Name, fault.NotFound)
}

// Engine is what delivers the main records of a shard.
type Engine interface {
	Pause()
	Resume()
	TryOne() bool
	Limit(atOnce int) // 0: as it is set up
}

// pauses are the reasons why nothing is delivered.
type pauses uint8

const (
	ordered   pauses = 1 << iota // by the definition
	heldBack                     // by the breaker
	throttled                    // until the rate allows some
	crowded                      // until that of the endpoint does
)

// Uses tells the shard which engine works for it, before that runs.
func (s *Shard) Uses(e Engine) {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.engine = e
	e.Limit(int(s.slots.most.Load()))
	if s.paused != 0 {
		e.Pause()
	}
}

// SetPaused ends or begins the delivery of records, also before Run and before there is an engine. What
// is being delivered goes on to its end; no other attempt is begun once it has returned.
func (s *Shard) SetPaused(paused bool) { s.setPaused(ordered, paused) }

func (s *Shard) setPaused(why pauses, paused bool) {
	s.gate.Lock()
	defer s.gate.Unlock()
	was := s.paused
	if s.paused &^= why; paused {
		s.paused |= why
	}
	if (was != 0) == (s.paused != 0) {
		return
	}
	s.do(func(st *core.State) { st.SetPaused(s.paused != 0) })
	switch {
	case s.engine == nil:
	case s.paused != 0:
		s.engine.Pause()
	default:
		s.engine.Resume()
	}
}

// tryOne has one record delivered although the breaker holds all back: in turns one that is parked and
// one of the main topic. False: there is none, or nothing may be delivered at all.
func (s *Shard) tryOne() bool {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.paused != heldBack || s.engine == nil {
		return false
	}
	if s.turn = !s.turn; s.turn {
		return s.tryParked() || s.engine.TryOne()
	}
	return s.engine.TryOne() || s.tryParked()
}

// tryParked is tryOne for what is parked. None is tried that would wait for a slot: others could go meanwhile.
func (s *Shard) tryParked() bool {
	if s.slots.taken() || s.cfg.Target.taken() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calm != nil {
		return false
	}
	s.st.SetPaused(false)
	s.st.Due(s.nowLocked().UnixMilli(), 1)
	s.st.SetPaused(true)
	found := s.st.Effects()
	for _, e := range found {
		s.pumped = append(s.pumped, e.(core.Deliver)) // Due wants nothing else
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
	return len(found) > 0
}
