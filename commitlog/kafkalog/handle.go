package kafkalog

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// handle is one open of a topic.
type handle struct {
	s      *store
	once   sync.Once
	closed chan struct{}
}

var _ driver.Topic = (*handle)(nil)

func (h *handle) Config() driver.TopicConfig { return h.s.now() }

// usable says whether calls on the handle make sense.
func (h *handle) usable(ctx context.Context) error {
	select {
	case <-h.closed:
		return fmt.Errorf("topic %q: this handle is %w", h.s.config.Name, fault.Closed)
	default:
	}
	if err := h.s.l.usable(ctx); err != nil {
		return err
	}
	if h.s.gone.Load() {
		return h.s.errGone()
	}
	return nil
}

// present is usable, and asks the cluster whether the topic is still the one that was opened:
// requests that name topics must not hit another one of the same name.
func (h *handle) present(ctx context.Context) error {
	if err := h.usable(ctx); err != nil {
		return err
	}
	return persist(ctx, h.s.refresh)
}

func (h *handle) Bounds(ctx context.Context, partition int) (driver.Bounds, error) {
	limit := -1
	var both errgroup.Group
	both.Go(func() error { return h.present(ctx) })
	both.Go(func() (err error) {
		if !h.s.sealed.Load() {
			limit, err = h.s.readLimit(ctx)
		}
		return err
	})
	if err := both.Wait(); err != nil {
		return driver.Bounds{}, err
	}
	p := h.s.parts[partition]
	if limit == 0 && !h.s.sealed.Load() { // a seal has begun: after this the ends are final
		if _, err := h.s.seal(ctx); err != nil {
			return driver.Bounds{}, err
		}
	}
	sealed := h.s.sealed.Load()
	b, err := p.bounds(ctx)
	b.Sealed = sealed
	if err == nil {
		p.read.mu.Lock()
		p.read.saw(b.First, b.Next)
		p.read.mu.Unlock()
	}
	return b, err
}

func (h *handle) OffsetAt(ctx context.Context, partition int, millis int64) (int64, error) {
	if err := h.present(ctx); err != nil {
		return 0, err
	}
	return h.s.parts[partition].offsetAt(ctx, millis)
}

func (h *handle) Trim(ctx context.Context, partition int, before int64) error {
	if err := h.present(ctx); err != nil {
		return err
	}
	return h.s.parts[partition].trim(ctx, before)
}

// trim deletes the records below an offset.
func (p *partition) trim(ctx context.Context, before int64) error {
	b, err := p.bounds(ctx)
	if err != nil {
		return err
	}
	if before = min(before, b.Next); before <= b.First {
		return nil
	}
	first := int64(-1)
	err = p.s.onLeader(ctx, p.index, func(ctx context.Context, broker int32) error {
		part := kmsg.NewDeleteRecordsRequestTopicPartition()
		part.Partition, part.Offset = int32(p.index), before //nolint:gosec // at most 4096
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic, t.Partitions = p.s.kafkaName, append(t.Partitions, part)
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis, req.Topics = int32(requestTimeout.Milliseconds()), append(req.Topics, t)
		resp, err := req.RequestWith(ctx, brokerOf(p.s.l.main, broker))
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, part := range t.Partitions {
				first = part.LowWatermark
				return kerr.ErrorForCode(part.ErrorCode)
			}
		}
		return errNoAnswer
	})
	if errors.Is(err, kerr.OffsetOutOfRange) {
		err = nil // another process trimmed further
	}
	if err != nil {
		return fmt.Errorf("trim topic %q partition %d: %w", p.s.config.Name, p.index, err)
	}
	p.read.mu.Lock()
	p.read.saw(first, 0)
	p.read.mu.Unlock()
	return nil
}

func (h *handle) Close() error {
	h.once.Do(func() {
		close(h.closed)
		h.s.l.release(h.s)
	})
	return nil
}

var (
	_ driver.Identifier = (*kafkaLog)(nil)
	_ driver.Identified = (*handle)(nil)
)

// TopicID implements driver.Identifier: a topic of Kafka has an ID for its life (KIP-516).
func (l *kafkaLog) TopicID(ctx context.Context, name string) (string, error) {
	s, err := l.describe(ctx, name)
	if err != nil {
		return "", err
	}
	return s.topicID(), nil
}

// ID implements driver.Identified.
func (h *handle) ID() string { return h.s.topicID() }

// topicID is the ID in hex; "" for that of a broker which gives none.
func (s *store) topicID() string {
	if s.id == ([16]byte{}) {
		return ""
	}
	return hex.EncodeToString(s.id[:])
}
