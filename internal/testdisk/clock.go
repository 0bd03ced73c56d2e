//go:build linux

package testdisk

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// elsewhere is set in a process that InOtherTime has started.
const elsewhere = "RINGFENCE_TEST_OTHER_TIME"

// InOtherTime runs the calling test once more, as a process in a time namespace whose clocks since the
// start of the host are ahead by so much, as in a container that was moved from another host. There it
// returns true. Here it returns what was written to standard output, as far as the test writes there.
func InOtherTime(t *testing.T, ahead time.Duration) (there bool, out string) {
	t.Helper()
	if os.Getenv(elsewhere) != "" {
		return true, ""
	}
	seconds := strconv.Itoa(int(ahead / time.Second))
	space := []string{"--user", "--map-current-user", "--time", "--fork", "--monotonic", seconds, "--boottime", seconds}
	if said, err := exec.CommandContext(t.Context(), "unshare", append(space, "true")...).CombinedOutput(); err != nil { //nolint:gosec // of a test
		missing(t, fmt.Sprintf("no time namespace can be made: %v: %s", err, said))
	}
	cmd := exec.CommandContext(t.Context(), "unshare", append(space, os.Args[0], "-test.run", "^"+t.Name()+"$")...) //nolint:gosec // of a test
	cmd.Env = append(os.Environ(), elsewhere+"=yes")
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return false, string(said)
}
