package pulsarlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// sealPatience is how long a broker may take to end a partition that it has begun to terminate.
const sealPatience = 5 * time.Second

// look asks the broker for the state of a partition and the offset behind its last entry. A partition
// is sealed only when its end is known: a broker that terminates one says so at once, while entries
// are on their way, and shows an end that some of them will come behind. A reader that believed it would
// skip records that were acknowledged. So the end is what the broker has written down last of all.
func (p *partition) look(ctx context.Context) (s *stats, next int64, err error) {
	err = patiently(ctx, sealPatience, func() (bool, error) {
		if s, err = p.admin().stats(ctx, p.name); err != nil {
			return false, err
		}
		if !s.sealed() {
			next, err = s.next()
			return false, err
		}
		if final := p.final.Load(); final > 0 {
			next = final - 1
			return false, nil
		}
		end, err := p.admin().end(ctx, p.name)
		if err != nil || end == nil {
			return err == nil, cmp.Or(err, errEnding)
		}
		next, err = s.behind(end.Ledger, end.Entry)
		if err == nil && p.final.CompareAndSwap(0, next+1) {
			p.readers.retire(next)
		}
		return false, err
	})
	if errors.Is(err, errEnding) {
		p.reload(ctx, "the broker has begun to end a partition and does not finish it")
	}
	return s, next, err
}

var errEnding = fmt.Errorf("the broker has not written down where it ends: %w", fault.Unavailable)

// patiently calls f until it need not be called again, or for so long.
func patiently(ctx context.Context, most time.Duration, f func() (again bool, err error)) error {
	for end := time.Now().Add(most); ; {
		again, err := f()
		if !again || time.Now().After(end) {
			return err
		}
		if err := pause(ctx, busyPause); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// seal ends the partition and returns its final end.
func (p *partition) seal(ctx context.Context, h *handle) (int64, error) {
	answer := make(chan error, 1)
	err := p.writer.enqueue(ctx, h, &item{marker: true, bytes: 1, done: func(_ int64, err error) { answer <- err }})
	if err == nil {
		select {
		case err = <-answer:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	// Whether the marker is there does not matter for the end, only for readers that sleep.
	if err != nil && !errors.Is(err, fault.Sealed) && !errors.Is(err, fault.Unknown) {
		return 0, err
	}
	if err := p.admin().terminate(ctx, p.name); err != nil {
		return 0, err
	}
	end, err := p.ended(ctx)
	if err != nil {
		return 0, err
	}
	p.readers.wakeAll()
	return end, nil
}

// ended is where a partition ends that was terminated. A broker that terminates it for another
// process at the same time may need a moment to say so.
func (p *partition) ended(ctx context.Context) (end int64, err error) {
	err = patiently(ctx, sealPatience, func() (bool, error) {
		b, err := p.bounds(ctx)
		if end = b.Next; err != nil || b.Sealed {
			return false, err
		}
		return true, p.fail("seal", fmt.Errorf("the broker terminated it and says that it goes on: %w", fault.Unavailable))
	})
	return end, err
}

// isFenced says whether the broker lets no client at a topic for now.
func isFenced(err error) bool {
	return strings.Contains(err.Error(), "temporarily unavailable")
}

// free lets the broker load a terminated partition anew. When entries were on their way at the
// moment of the end, Pulsar 4.0 now and then never opens the topic for readers again by itself.
func (p *partition) free(ctx context.Context) (done bool) {
	s, err := p.admin().stats(ctx, p.name)
	if err != nil || !s.sealed() {
		return false
	}
	return p.reload(ctx, "a sealed partition is not open for readers")
}

// reload makes the broker forget what it knows of a partition and load it anew.
func (p *partition) reload(ctx context.Context, why string) (done bool) {
	err := p.admin().unload(ctx, p.name)
	about := []any{"topic", p.topic.config.Name, "partition", p.number, "why", why}
	switch {
	case err == nil:
		p.topic.log.config.Logger.Info("the broker loads a partition anew", about...)
	case ctx.Err() == nil:
		p.topic.log.config.Logger.Warn("the broker does not load a partition anew", append(about, "error", err)...)
	}
	return err == nil
}
