package filelog

import (
	"context"

	"github.com/ringfence/ringfence/commitlog/driver"
)

var _ driver.Settler = (*topic)(nil)

// Unsettled implements driver.Settler: at level os readers see what is written.
func (t *topic) Unsettled() bool { return !t.s.syncing() }

// Doubt implements driver.Settler: what is cut off is of a segment that was poisoned before.
func (t *topic) Doubt() uint64 {
	if !t.s.gate.enter() {
		return 0
	}
	defer t.s.leave()
	return t.s.page.Poison()
}

// Settle implements driver.Settler.
func (t *topic) Settle(ctx context.Context) error {
	if !t.Unsettled() {
		return nil
	}
	if err := t.enter(ctx); err != nil {
		return err
	}
	defer t.s.leave()
	return t.s.verdict(t.s.awaitSync(t.s.page.Written()))
}
