package pgregistry

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

// An array that is accepted is what the same numbers are encoded as.
func FuzzInts(f *testing.F) {
	var a args
	a.ints([]int32{0, -1, 1 << 30})
	a.ints(nil)
	f.Add(a.values[0])
	f.Add(a.values[1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := readInts(b)
		if err != nil {
			return
		}
		if 8*len(list) > len(b) {
			t.Fatalf("%d bytes became %d numbers", len(b), len(list))
		}
		var a args
		a.ints(list)
		if again, err := readInts(a.values[0]); err != nil || !slices.Equal(list, again) {
			t.Fatalf("%v comes back as %v, %v", list, again, err)
		}
	})
}

// A notification names the keys that it was made of, or says that all may have changed.
func FuzzNotification(f *testing.F) {
	key := base64.StdEncoding.EncodeToString([]byte("groups/g/meta"))
	f.Add("s " + key + " " + key)
	f.Add("k *")
	f.Add("")
	f.Fuzz(func(t *testing.T, payload string) {
		sessions, keys, all := heard(payload)
		if all {
			if !sessions || keys != nil {
				t.Fatalf("%q: all, with sessions %t and the keys %q", payload, sessions, keys)
			}
			return
		}
		_, list, _ := strings.Cut(payload, " ")
		if words := strings.Fields(list); len(keys) != len(words) {
			t.Fatalf("%q names %d keys and %d were read", payload, len(words), len(keys))
		}
	})
}
