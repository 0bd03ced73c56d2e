package filelog

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

// Of what was not written nothing is in doubt, though the error is that of a sync whose outcome is; and what an earlier
// append may have stored is never surely absent.
func TestFramesThatWereNotWrittenAreToldByWhatIsKnown(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	fresh, repeated, other := &pending{}, &pending{err: errDuplicate}, &pending{err: refused}
	failAll([]*pending{fresh, repeated, other}, notDone(fmt.Errorf("a sync failed: %w", fault.Unknown)))
	if !errors.Is(fresh.err, fault.NotDone) || errors.Is(fresh.err, fault.Unknown) {
		t.Errorf("a new one: %v; expected that it is not done", fresh.err)
	}
	if errors.Is(repeated.err, fault.NotDone) || !errors.Is(repeated.err, fault.Unknown) {
		t.Errorf("a repeated one: %v; expected that it is unknown", repeated.err)
	}
	if other.err != refused {
		t.Errorf("one that was refused for itself: %v", other.err)
	}
}
