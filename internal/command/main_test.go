package command

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == WatchName { // by a test, for what watches over its commands
		os.Exit(Watch(os.Stdin))
	}
	goleak.VerifyTestMain(m)
}
