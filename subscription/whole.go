package subscription

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// ErrCut says that a journal has not all that its shard needs: somebody else has trimmed it, or the log went
// back. The main position has passed what was parked there, so nothing delivers that again by itself.
var ErrCut = fmt.Errorf("the journal is not whole: %w", fault.Corrupt)

// beyond is the damage of a journal that is needed from a place on which it does not hold; nil: it does.
func beyond(from int64, b commitlog.Bounds) error {
	const mend = `"ringfence subscription reset" from before they were parked delivers them again`
	switch {
	case from < b.First:
		return fmt.Errorf("it is needed from %d on and begins at %d: %d of its records are gone, and as many parked ones and dead letters at most; "+mend+": %w", from, b.First, b.First-from, ErrCut)
	case from > b.Next:
		return fmt.Errorf("it is needed from %d on and ends at %d: what was parked since it was as it is may be lost; "+mend+": %w", from, b.Next, ErrCut)
	}
	return nil
}

// whole says whether the journal of a shard holds all that is needed of it. Its owner stores a place before he
// trims to it, and appends before he stores: so the beginning is asked for first, and the end last.
func (j *Journals) whole(ctx context.Context, shard int) error {
	if j.Stored == nil {
		return nil
	}
	before, err := j.Journal.Bounds(ctx, shard)
	if err != nil {
		return err
	}
	from, err1 := j.Stored(ctx, shard)
	after, err2 := j.Journal.Bounds(ctx, shard)
	if err := errors.Join(err1, err2); err != nil || from < 0 {
		return err
	}
	return beyond(from, commitlog.Bounds{First: before.First, Next: after.Next})
}
