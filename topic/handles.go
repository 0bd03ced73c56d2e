package topic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/internal/fault"
)

// Handles keeps the open topics of a client, one handle for each name. A handle belongs to one topic ID:
// when another topic has the name, the next use opens that, and users of the old handle keep it until
// Close. Its methods may be called concurrently.
type Handles struct {
	catalog *Catalog

	mu     sync.Mutex
	topics map[string]*Topic // by name
	ended  []*Topic          // of topics that are gone; Close closes them
	closed bool
}

// NewHandles keeps topics of a catalog. The caller closes them.
func NewHandles(c *Catalog) *Handles {
	return &Handles{catalog: c, topics: make(map[string]*Topic)}
}

// Catalog is where the topics are defined.
func (h *Handles) Catalog() *Catalog { return h.catalog }

// Close closes all; after that, opening a topic is fault.Closed.
func (h *Handles) Close() error {
	h.mu.Lock()
	all := slices.AppendSeq(h.ended, maps.Values(h.topics))
	h.topics, h.ended, h.closed = nil, nil, true
	h.mu.Unlock()
	var err error
	for _, t := range all {
		err = errors.Join(err, t.Close())
	}
	return err
}

// Open returns the handle of a topic. Its definition may be older than what is stored, see Current.
func (h *Handles) Open(ctx context.Context, name string) (*Topic, error) {
	h.mu.Lock()
	t, closed := h.topics[name], h.closed
	h.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("client: %w", fault.Closed)
	}
	switch {
	case t == nil:
	case t.Gone():
		h.leave(name, t)
	default:
		return t, nil
	}
	t, err := h.catalog.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	other, closed := h.topics[name], h.closed
	if other == nil && !closed {
		h.topics[name] = t
	}
	h.mu.Unlock()
	switch {
	case closed:
		return nil, errors.Join(fmt.Errorf("client: %w", fault.Closed), t.Close())
	case other != nil:
		return other, t.Close()
	}
	return t, nil
}

// Current is Open, with the definition as it is now. When that can't be read, the handle comes with the
// error.
func (h *Handles) Current(ctx context.Context, name string) (*Topic, error) {
	for {
		t, err := h.Open(ctx, name)
		if err != nil {
			return nil, err
		}
		err = t.Refresh(ctx)
		if !errors.Is(err, ErrAnotherLife) {
			return t, err
		}
		h.leave(name, t)
	}
}

// leave makes the next use of a topic open it anew, as this one may be gone. Users of the handle
// keep it until Close.
func (h *Handles) leave(name string, t *Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics[name] == t {
		delete(h.topics, name)
		h.ended = append(h.ended, t)
	}
}

// Reopen makes the next use of a topic open it anew: the log may not have it any more.
func (h *Handles) Reopen(name string) {
	h.mu.Lock()
	t := h.topics[name]
	h.mu.Unlock()
	if t != nil {
		h.leave(name, t)
	}
}

// Forget closes the handle of a deleted topic, so that the next use opens anew.
func (h *Handles) Forget(name string) {
	h.mu.Lock()
	t := h.topics[name]
	if t != nil {
		delete(h.topics, name)
	}
	h.mu.Unlock()
	if t != nil {
		_ = t.Close()
	}
}
