package testserver

import (
	"os/exec"
	"testing"
)

// Program is the path of a program of this machine. Without it the test is skipped, or fails where RINGFENCE_REQUIRE has
// its name.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name, err.Error())
	}
	return path
}
