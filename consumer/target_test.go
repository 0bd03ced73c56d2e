package consumer_test

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/internal/fault"
)

// What is accepted as the place to go to is understood again as it is printed.
func FuzzParseSeek(f *testing.F) {
	for _, s := range []string{"earliest", "latest", "0", "9223372036854775807", "-15m", "2026-01-31T12:00:00Z", "-1", "+1", "0x10", "-2562047h", "9999-12-31T23:59:59+23:59"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		to, err := consumer.ParseSeek(s)
		if err != nil {
			if !errors.Is(err, fault.Invalid) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		text := to.String()
		again, err := consumer.ParseSeek(text)
		if err != nil || again.String() != text {
			t.Fatalf("%q is printed as %q, which is read as %q, %v", s, text, again, err)
		}
	})
}
