package kv_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
)

// A consumer asks before it starts whether checkpoints can go into transactions of the user's.
func TestANamespaceHasTransactionsOnlyWhereItsStoreHas(t *testing.T) {
	t.Parallel()
	type plain struct{ driver.Registry }
	type database struct {
		driver.Registry
		driver.Transactional
	}
	for name, c := range map[string]struct {
		store driver.Registry
		want  bool
	}{"plain": {plain{}, false}, "database": {database{}, true}} {
		n, err := kv.Namespace(c.store, "n")
		if err != nil {
			t.Fatal(err)
		}
		if _, has := n.(driver.Transactional); has != c.want {
			t.Errorf("%s: transactional %t, want %t", name, has, c.want)
		}
	}
}

func TestAfterIsTheEndOfAPrefix(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		prefix := string(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 'a', 0xfe, 0xff}), 0, 4).Draw(t, "prefix"))
		key := string(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 'a', 'b', 0xfe, 0xff}), 0, 5).Draw(t, "key"))
		end := kv.After(prefix)
		in := key >= prefix && (end == nil || bytes.Compare([]byte(key), end) < 0)
		if in != strings.HasPrefix(key, prefix) {
			t.Fatalf("prefix %q ends before %q: key %q is taken for one below it: %t", prefix, end, key, in)
		}
	})
}
