package registrytest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// What a broken registry leaves behind is none of the suite's.
func TestMain(m *testing.M) {
	if os.Getenv(brokenVariable) != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(m)
}
