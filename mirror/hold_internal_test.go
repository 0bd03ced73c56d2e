package mirror

import (
	"testing"

	"github.com/ringfence/ringfence/registry"
)

// A log may be the target of one mirror and the source of another, of the same names even. No hold
// takes the place of another one, or of a group's.
func TestHoldsOfMirrorsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, side := range []string{"kafka://a", "kafka://b", "from:kafka://a", "-from:kafka://a", "a", ""} {
		for what, hold := range map[string]string{"source of " + side: holdName(side), "target of " + side: incomingName(side)} {
			if other, taken := seen[hold]; taken {
				t.Errorf("%q holds the %s and the %s", hold, what, other)
			}
			seen[hold] = what
			if registry.CheckID("group", hold) == nil {
				t.Errorf("a group may be named as the hold of the %s: %q", what, hold)
			}
		}
	}
}
