// Package testserver gives tests the real servers that `make services` starts.
package testserver

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// URL is that of the shared server of that name (postgres, redis, …): the value of
// RINGFENCE_<NAME>_URL. A test that finds none is skipped, visibly; it fails when
// RINGFENCE_REQUIRE, a list of names divided by commas, demands the server.
//
// Other tests use the server at the same time: keep to names that nobody else uses.
func URL(t testing.TB, name string) string {
	t.Helper()
	variable := "RINGFENCE_" + strings.ToUpper(name) + "_URL"
	u := os.Getenv(variable)
	if u != "" {
		return u
	}
	if slices.Contains(strings.Split(os.Getenv("RINGFENCE_REQUIRE"), ","), name) {
		t.Fatalf("RINGFENCE_REQUIRE demands %s, but %s is not set: run scripts/services start", name, variable)
	}
	t.Skipf("no %s: %s is not set (make services starts one)", name, variable)
	return ""
}
