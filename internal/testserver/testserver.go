// Package testserver gives tests real servers: those that all tests share (URL), one of their
// own that they may kill and freeze (Private), and a network that they may break (Proxy).
package testserver

import (
	"flag"
	"os"
	"testing"
)

// Waiting runs four tests of a package at once, whatever the number of processors: they mostly wait. A
// TestMain calls it.
func Waiting() {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
}

// URL is that of the shared server of that name (postgres, redis, …): the value of
// RINGFENCE_<NAME>_URL. A test that finds none is skipped, visibly; it fails when
// RINGFENCE_REQUIRE, a list of names divided by commas, demands the server.
//
// Other tests use the server at the same time: keep to names of your own.
func URL(t testing.TB, name string) string {
	t.Helper()
	u := os.Getenv(variable(name))
	if u == "" {
		missing(t, name, variable(name)+` is not set: make services, then eval "$(scripts/services env)"`)
	}
	return u
}
