// Package testserver gives tests real servers: those that all tests share (URL), one of their
// own that they may kill and freeze (Private), and a network that they may break (Proxy).
package testserver

import (
	"flag"
	"os"
	"testing"
)

// Waiting runs four tests of a package at once, as they mostly wait. A TestMain calls it.
func Waiting() {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
}

// URL is that of the server of that name (postgres, redis, …) which tests share: the value of RINGFENCE_<NAME>_URL.
// Without it a test is skipped, visibly, or fails when RINGFENCE_REQUIRE, a list with commas, demands the server.
// Keep to names of your own.
func URL(t testing.TB, name string) string {
	t.Helper()
	u := os.Getenv(variable(name))
	if u == "" {
		missing(t, name, variable(name)+` is not set: make services, then eval "$(scripts/services env)"`)
	}
	return u
}
