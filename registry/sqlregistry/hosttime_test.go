//go:build linux

package sqlregistry

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/testdisk"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Processes in containers with clocks of their own share a database: a session of one must not look
// as if it had ended days ago, or as if it never would.
func TestSessionsEndByTheClockOfTheHost(t *testing.T) {
	t.Parallel()
	now := func() time.Duration {
		ahead, err := vfs.ClockAhead(unix.CLOCK_BOOTTIME)
		if err != nil {
			t.Fatal(err)
		}
		var us int64
		if _, err := fmt.Sscan(sqliteDialect(ahead).Now(), &us); err != nil {
			t.Fatal(err)
		}
		return time.Duration(us) * time.Microsecond
	}
	before := now()
	there, out := testdisk.InOtherTime(t, 240*time.Hour)
	if there {
		fmt.Fprintln(os.Stdout, int64(now()))
		return
	}
	var theirs time.Duration
	if _, err := fmt.Sscan(out, &theirs); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	if after := now(); theirs < before || theirs > after {
		t.Errorf("there it is %s, and here %s to %s", theirs, before, after)
	}
}
