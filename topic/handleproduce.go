package topic

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// Produce appends a record to whatever topic has the name, see Topic.Produce.
func (h *Handles) Produce(ctx context.Context, name string, r commitlog.Record) (Position, error) {
	for {
		t, err := h.Open(ctx, name)
		if err != nil {
			return Position{}, err
		}
		at, err := t.Produce(ctx, r.Key, AnyPartition, []commitlog.Record{r}, nil)
		if !errors.Is(err, fault.NotFound) || !errors.Is(t.Refresh(ctx), ErrAnotherLife) {
			return at, err
		}
	} // it is not stored, and another topic has the name: the record is meant for that one
}

// Home returns the index of the storage topic that is home to an idempotent producer which begins now.
func (h *Handles) Home(ctx context.Context, name string) (int, error) {
	for {
		t, err := h.Open(ctx, name)
		if err != nil {
			return 0, err
		}
		home, err := t.Home(ctx)
		if !errors.Is(err, ErrAnotherLife) {
			return home, err
		}
	} // another topic has the name: open that one
}
