package back

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/internal/testserver"
)

func TestMain(m *testing.M) {
	testserver.Waiting()
	goleak.VerifyTestMain(m)
}
