package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/fault"
)

// Pause says since when, and why, a subscription delivers nothing.
type Pause struct {
	Since  int64  `json:"since"` // Unix ms
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"` // the user that paused it, or ByEndpoint
}

// ByEndpoint is in Pause.By when an answer of the endpoint paused the subscription.
const ByEndpoint = "endpoint"

// maxReasonBytes bounds the reason of a pause.
const maxReasonBytes = 1024

// Pausing is a pause, and what it depends on.
type Pausing struct {
	Reason, By string
	Life       string // only the subscription of that ID; "": any
	Untaken    bool   // only while its endpoint has taken no record
	ResumedAt  *int64 // only while it was resumed then last; nil: whenever
}

// Pause stops the delivery of a subscription until Resume, and returns it as it is stored. A paused one
// keeps its reason and its user. ErrNotFound when there is none; ErrInvalid for a reason that is too long, or no text.
func (c *Catalog) Pause(ctx context.Context, name string, p Pausing) (*Document, error) {
	if len(p.Reason) > maxReasonBytes || !utf8.ValidString(p.Reason) {
		return nil, fmt.Errorf("a reason of %d bytes; expected a text of at most %d: %w", len(p.Reason), maxReasonBytes, fault.Invalid)
	}
	return c.change(ctx, name, func(d *Document) (bool, error) {
		if p.Life != "" && d.Life() != p.Life {
			return false, fmt.Errorf("subscription %q was deleted: %w", name, fault.NotFound)
		}
		if d.Paused != nil || p.Untaken && d.TakenAt != 0 || p.ResumedAt != nil && *p.ResumedAt != d.ResumedAt {
			return false, nil
		}
		d.Paused = &Pause{Since: time.Now().UnixMilli(), Reason: p.Reason, By: cmp.Or(p.By, group.Operator())}
		return true, nil
	})
}

// NoteTaken notes that the endpoint with that URL has taken a record. ErrNotFound when there is no such subscription.
func (c *Catalog) NoteTaken(ctx context.Context, name, life, endpoint string) error {
	_, err := c.change(ctx, name, func(d *Document) (bool, error) {
		if d.Life() != life || d.Endpoint == nil || d.Endpoint.URL != endpoint || d.TakenAt != 0 {
			return false, nil // it is about another one
		}
		d.TakenAt = time.Now().UnixMilli()
		return true, nil
	})
	return err
}

// Resume ends a pause, and returns the subscription as it is stored. ErrNotFound when there is none.
func (c *Catalog) Resume(ctx context.Context, name string) (*Document, error) {
	return c.change(ctx, name, func(d *Document) (bool, error) {
		if d.Paused == nil {
			return false, nil
		}
		d.Paused, d.ResumedAt = nil, max(time.Now().UnixMilli(), d.ResumedAt+1)
		return true, nil
	})
}

// change stores what f makes of a ready definition; nothing when f returns false. A change that began with one
// subscription never reaches the next of its name.
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

// isAnother is the error when a subscription has the name of the one that was meant, but another ID.
func (d *Document) isAnother() error {
	return fmt.Errorf("subscription %q was deleted, and another one has its name: %w", d.Name, fault.NotFound)
}
