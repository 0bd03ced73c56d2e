package testserver

import (
	"os"
	"testing"
)

// Stranger is the id of a user that owns nothing. Only root can act as another user: without it the test is skipped,
// or fails where RINGFENCE_REQUIRE has the name root.
func Stranger(t testing.TB) int {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "root", "only root can act as another user")
	}
	return 65534 // nobody
}
