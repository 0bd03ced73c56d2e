package commitlog

import (
	"context"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// Unsettled tells whether records that are read here may still be lost with the power, and their offsets be
// given to others. A place that keeps an offset for longer stores it after Settle.
func (t *Topic) Unsettled() bool {
	d, ok := t.d.(driver.Settler)
	return ok && d.Unsettled()
}

// Doubt is a number that changes when records that were read may have been taken back. Other records get
// their offsets then.
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
