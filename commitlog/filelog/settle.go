package filelog

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog/internal/page"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

var _ driver.Settler = (*topic)(nil)

// Unsettled implements driver.Settler: at level os readers see what is written.
func (t *topic) Unsettled() bool { return !t.s.syncing() }

// Doubt implements driver.Settler: what is cut off is of a segment that was broken before, when the log
// goes on in another one. Until then a reader that begins after the error sees it, too: so both moments count.
func (t *topic) Doubt() uint64 {
	if !t.s.gate.enter() {
		return 0
	}
	defer t.s.leave()
	broken := t.s.page.Broken()
	doubt := 2 * broken
	if t.s.page.Written().Number() > broken {
		doubt++
	}
	return doubt
}

// Settle implements driver.Settler.
func (t *topic) Settle(ctx context.Context) error {
	if !t.Unsettled() {
		return nil
	}
	return t.call(ctx, func() error {
		end := t.s.page.Written()
		err := t.s.awaitSync(end)
		if t.s.page.FateOf(end) == page.Unknown {
			err = t.s.goOn(end)
		}
		return err
	})
}

// goOn has the log go on behind a broken segment, as the next append would, which may never come. It is
// nil when nothing of what stands below end was cut off with that, and all of it is on stable storage.
func (s *store) goOn(end segment.Pos) error {
	if err := s.decideFor(end.Number()); err != nil {
		return fmt.Errorf("topic %q: go on behind segment %d, which had a write or sync error: %w: %w", s.name, end.Number(), fault.Unknown, err)
	}
	if err := s.kept(end); err != nil {
		return err
	}
	return s.awaitSync(s.page.Written())
}
