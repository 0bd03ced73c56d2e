package kv_test

import (
	"testing"

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
