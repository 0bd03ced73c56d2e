package kafkalog

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// samples is how many batches of a partition are read to estimate its size.
const samples = 16

func isNotFound(err error) bool { return errors.Is(err, fault.NotFound) }

// retains says whether Ringfence has to trim the topic: Kafka's own retention heeds no hold.
func retains(c driver.TopicConfig) bool {
	return !c.RetentionForce && (c.RetentionAgeMillis > 0 || c.RetentionBytes > 0)
}

// keepRetaining starts the loop below with the first topic. l.mu is held.
func (l *kafkaLog) keepRetaining() {
	if l.retaining || l.done {
		return
	}
	l.retaining = true
	l.wg.Go(func() {
		tick := time.NewTicker(l.c.retainEvery)
		defer tick.Stop()
		for {
			select {
			case <-l.ctx.Done():
				return
			case <-tick.C:
				if !l.followRetention() {
					continue
				}
			case <-l.look: // some broker may not have heard of the change yet
			}
			l.retainAll()
		}
	})
}

func (l *kafkaLog) retainAll() {
	for _, s := range l.openStores() {
		if !retains(s.now()) {
			continue
		}
		if err := s.retain(l.ctx, time.Now()); err != nil && l.ctx.Err() == nil && !isNotFound(err) {
			l.c.Logger.Warn("retention could not be applied; it is tried again", "topic", s.config.Name, "error", err)
		}
	}
}

// retain trims what is too old or too much and not held. Any process may do it, several at once.
func (s *store) retain(ctx context.Context, now time.Time) error {
	if err := persist(ctx, s.refresh); err != nil {
		return err
	}
	held, err := s.l.heldOf(ctx, s)
	if err != nil {
		return err
	}
	c := s.now()
	excess := 0.0
	sizes := make([]float64, len(s.parts))
	if c.RetentionBytes > 0 {
		total := 0.0
		for i, p := range s.parts {
			if sizes[i], err = p.size(ctx); err != nil {
				return err
			}
			total += sizes[i]
		}
		if total > 0 {
			excess = max(0, total-float64(c.RetentionBytes)) / total
		}
	}
	for i, p := range s.parts {
		b, err := p.bounds(ctx)
		if err != nil {
			return err
		}
		cut := b.First + int64(excess*float64(b.Next-b.First))
		if c.RetentionAgeMillis > 0 {
			old, err := p.offsetAt(ctx, now.UnixMilli()-c.RetentionAgeMillis)
			if err != nil {
				return err
			}
			cut = max(cut, old)
		}
		if held[i] >= 0 {
			cut = min(cut, held[i])
		}
		if cut > b.First {
			if err := p.trim(ctx, cut); err != nil {
				return err
			}
		}
	}
	return nil
}

// size estimates the bytes of a partition from batches at regular distances. What Kafka tells of
// its files would count what was trimmed and stands in a segment that is still in use.
func (p *partition) size(ctx context.Context) (float64, error) {
	b, err := p.bounds(ctx)
	if err != nil || b.Next == b.First {
		return 0, err
	}
	bytes, offsets := 0.0, 0.0
	step := max(1, (b.Next-b.First)/samples)
	for at := b.First; at < b.Next; at += step {
		part, err := p.fetchOne(ctx, at, 1) // the broker gives a batch at least
		if err != nil {
			return 0, err
		}
		h, size, err := nextBatch(part.RecordBatches)
		if err != nil {
			return 0, err
		}
		if size > 0 {
			bytes += float64(size)
			offsets += float64(h.last - h.FirstOffset + 1)
		}
	}
	if offsets == 0 {
		return 0, nil
	}
	return bytes / offsets * float64(b.Next-b.First), nil
}
