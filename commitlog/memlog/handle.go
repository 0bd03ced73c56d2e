package memlog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// handle is one open of a topic by one log.
type handle struct {
	topic  *topic
	log    *memLog
	once   sync.Once
	closed chan struct{}
}

var _ driver.Topic = (*handle)(nil)

// enter locks the topic; the caller unlocks when err is nil.
func (h *handle) enter(ctx context.Context) error {
	if err := h.log.usable(ctx); err != nil {
		return err
	}
	if isClosed(h.closed) {
		return fmt.Errorf("topic %q: this handle is %w", h.topic.config.Name, fault.Closed)
	}
	h.topic.mu.Lock()
	if h.topic.deleted {
		h.topic.mu.Unlock()
		return fmt.Errorf("topic %q was deleted: %w", h.topic.config.Name, fault.NotFound)
	}
	h.topic.retain()
	return nil
}

func (h *handle) Config() driver.TopicConfig { return h.topic.now() }

func (h *handle) Append(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
	if err := h.enter(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("append to topic %q: %w: %w", h.topic.config.Name, fault.NotDone, err)
		}
		done(0, err)
		return
	}
	first, err := h.topic.append(req)
	h.topic.mu.Unlock()
	done(first, err)
}

func (h *handle) Read(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	if err := h.enter(ctx); err != nil {
		return dst, req.Offset, err
	}
	p := h.topic.parts[req.Partition]
	if req.Offset < p.first || req.Offset > p.next {
		defer h.topic.mu.Unlock()
		return dst, req.Offset, &driver.OutOfRangeError{Topic: h.topic.config.Name, Partition: req.Partition, Offset: req.Offset, First: p.first, End: p.next}
	}
	found, next := p.find(req.Offset, req.MaxBytes)
	h.topic.mu.Unlock()
	return copyRecords(dst, found, req.Buf), next, nil // what is stored never changes: no lock
}

func (h *handle) Wait(ctx context.Context, partition int, offset int64) error {
	for {
		if err := h.enter(ctx); err != nil {
			return err
		}
		p := h.topic.parts[partition]
		if offset < p.next || h.topic.sealed {
			h.topic.mu.Unlock()
			return nil
		}
		wake := p.wake
		h.topic.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
		case <-h.closed:
		case <-h.log.closed:
		}
	}
}

func (h *handle) Bounds(ctx context.Context, partition int) (driver.Bounds, error) {
	if err := h.enter(ctx); err != nil {
		return driver.Bounds{}, err
	}
	defer h.topic.mu.Unlock()
	p := h.topic.parts[partition]
	return driver.Bounds{First: p.first, Next: p.next, Sealed: h.topic.sealed}, nil
}

func (h *handle) OffsetAt(ctx context.Context, partition int, millis int64) (int64, error) {
	if err := h.enter(ctx); err != nil {
		return 0, err
	}
	defer h.topic.mu.Unlock()
	p := h.topic.parts[partition]
	for _, r := range p.records {
		if r.Timestamp >= millis {
			return r.Offset, nil
		}
	}
	return p.next, nil
}

func (h *handle) Trim(ctx context.Context, partition int, before int64) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer h.topic.mu.Unlock()
	h.topic.parts[partition].trim(before)
	return nil
}

func (h *handle) Hold(ctx context.Context, name string, offsets []int64) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer h.topic.mu.Unlock()
	h.topic.holds[name] = append([]int64(nil), offsets...)
	return nil
}

func (h *handle) Holds(ctx context.Context) (map[string][]int64, error) {
	if err := h.enter(ctx); err != nil {
		return nil, err
	}
	defer h.topic.mu.Unlock()
	holds := maps.Clone(h.topic.holds)
	for name, offsets := range holds {
		holds[name] = slices.Clone(offsets)
	}
	return holds, nil
}

func (h *handle) Seal(ctx context.Context) ([]int64, error) {
	if err := h.enter(ctx); err != nil {
		return nil, err
	}
	defer h.topic.mu.Unlock()
	h.topic.sealed = true
	ends := make([]int64, len(h.topic.parts))
	for i, p := range h.topic.parts {
		ends[i] = p.next
		p.wakeAll()
	}
	return ends, nil
}

func (h *handle) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}
