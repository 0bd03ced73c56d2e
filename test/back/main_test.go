package back

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil { // they mostly wait
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
