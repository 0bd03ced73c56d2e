package memtest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// failed is a test that notes its failure.
type failed struct {
	testing.TB
	yes bool
}

func (f *failed) Helper()               {}
func (f *failed) Fatalf(string, ...any) { f.yes = true }

var sink []byte

func TestWhatIsTooMuchFails(t *testing.T) {
	for _, c := range []struct {
		bytes int
		fails bool
	}{{1 << 10, false}, {64 << 20, true}} {
		f := &failed{TB: t}
		AtMost(f, 4<<20, c.bytes, func() { sink = make([]byte, c.bytes) })
		if f.yes != c.fails {
			t.Errorf("%d bytes of 4 MiB fail: %t", c.bytes, f.yes)
		}
	}
	sink = nil
}
