//go:build linux

package filelog

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testdisk"
)

// A container's clocks may begin elsewhere. What one process says of when a segment was made is
// believed by all others on the host, or records go by their age, or stay, that are of now.
func TestTheTimeInAContainerIsThatOfItsHost(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, 240 * time.Hour} {
		before := newClock("boot").now()
		there, out := testdisk.InOtherTime(t, ahead)
		if there {
			m := newClock("boot").now()
			fmt.Fprintf(os.Stdout, "%d %d\n", m.boot, m.up)
			return
		}
		after := newClock("boot").now()
		var m moment
		if _, err := fmt.Sscan(out, &m.boot, &m.up); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if m.boot != before.boot || m.up < before.up || m.up > after.up {
			t.Errorf("%s ahead, the host has run for %d ms (boot %x), and here for %d to %d ms (boot %x)", ahead, m.up, m.boot, before.up, after.up, before.boot)
		}
	}
}
