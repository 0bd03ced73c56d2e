package commitlog

import (
	"context"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// Unsettled tells whether what is read here may still be lost with the power, and its offsets be given out
// again: what is stored of an offset, in a place that may keep it longer, has to wait for Settle.
func (t *Topic) Unsettled() bool {
	d, ok := t.d.(driver.Settler)
	return ok && d.Unsettled()
}

// Doubt is a number that has changed when records that were read may have been taken back: others get their
// offsets then.
func (t *Topic) Doubt() uint64 {
	if d, ok := t.d.(driver.Settler); ok {
		return d.Doubt()
	}
	return 0
}

// Settle returns nil when all that could be read when it was called is on stable storage.
func (t *Topic) Settle(ctx context.Context) error {
	d, ok := t.d.(driver.Settler)
	if !ok {
		return nil
	}
	return d.Settle(ctx)
}
