package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
)

func TestUnreadableNamesTheRemedy(t *testing.T) {
	t.Parallel()
	wrapped := func(err error) error { return fmt.Errorf("unit 3: %w", err) }
	for name, c := range map[string]struct {
		err  error
		says string // "": no fault
	}{
		"trimmed":          {&commitlog.OutOfRangeError{Offset: 2453, First: 43793, End: 53335}, "group seek g --partition 3 --to earliest"},
		"beyond the end":   {&commitlog.OutOfRangeError{Offset: 99, First: 0, End: 5}, "group seek g --partition 3 --to latest"},
		"damaged":          {&commitlog.CorruptError{Offset: 1, Resume: 858}, "group seek g --partition 3 --to 858"},
		"damaged at large": {&commitlog.CorruptError{Offset: 1, Resume: -1}, `"ringfence log check"`},
		"of the registry":  {&protocol.DamagedUnitError{Unit: 3, Err: ringfence.ErrCorrupt}, "group seek g --partition 3 --to earliest (or latest, an offset, a time)"},
		"deleted":          {ringfence.ErrNotFound, `"ringfence log check"`},
		"away for now":     {ringfence.ErrUnavailable, ""},
		"a handler hangs":  {errors.New("stuck"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n unreadable
			n.trouble(3, "the worker ended", wrapped(c.err))
			err := n.fault("g")
			if (err == nil) != (c.says == "") {
				t.Fatalf("fault %v", err)
			}
			if err != nil && (!strings.Contains(err.Error(), "partition 3: ") || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v\ndoes not say %q", err, c.says)
			}
			if err != nil && fault.ExitCode(err) != fault.ExitFailure {
				t.Errorf("exit code %d; expected %d", fault.ExitCode(err), fault.ExitFailure)
			}
			n.clear(3)
			if err := n.fault("g"); err != nil {
				t.Errorf("fault %v of a partition that is fine again", err)
			}
		})
	}
}
