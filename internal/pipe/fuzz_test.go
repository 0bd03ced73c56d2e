package pipe

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

// A header of the command line is what stands on both sides of its first equals sign.
func FuzzParseHeaders(f *testing.F) {
	f.Add("name=value", "a==b")
	f.Add("=", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		headers, err := ParseHeaders([]string{a, b})
		if err != nil {
			if !errors.Is(err, fault.Invalid) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		for i, flag := range []string{a, b} {
			if h := headers[i]; h.Name == "" || strings.Contains(h.Name, "=") || h.Name+"="+string(h.Value) != flag {
				t.Fatalf("%q was read as %q with the value %q", flag, h.Name, h.Value)
			}
		}
	})
}
