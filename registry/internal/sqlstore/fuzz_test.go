package sqlstore

import (
	"slices"
	"testing"
)

// The keys of a change that another process wrote: what is accepted comes back the same when it is
// stored again, and takes no more room than its bytes. Nothing at all means that all may have changed.
func FuzzKeys(f *testing.F) {
	f.Add(encodeKeys([]string{"groups/g/meta", "k"}))
	f.Add(encodeKeys(make([]string, 0)))
	f.Add([]byte{0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 'k'})
	f.Fuzz(func(t *testing.T, b []byte) {
		keys := decodeKeys(b)
		size := 0
		for _, k := range keys {
			if k == "" {
				t.Fatalf("% x has an empty key", b)
			}
			size += 1 + len(k)
		}
		if size > len(b) {
			t.Fatalf("% x became %d bytes of keys", b, size)
		}
		if again := decodeKeys(encodeKeys(keys)); size <= maxChangeKeys && !slices.Equal(keys, again) {
			t.Fatalf("%q comes back as %q", keys, again)
		}
	})
}
