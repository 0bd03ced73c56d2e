package back

import (
	"slices"
	"testing"
)

// when says which processes meet it.
type when int

const (
	cold when = 1 << iota // they begin afterwards
	live                  // they live through it: a producer, and a member of a group of its own
	both = cold | live
)

// row is a document that is forgotten.
type row struct {
	name string
	when when
	body func(w *world)
}

func TestNothingIsLostWhenTheRegistryGoesBack(t *testing.T) {
	t.Parallel()
	run(t, slices.Concat(topics(), creations(), growth(), groups(), starts(), subscriptions()))
}

// run tries rows on all registries.
func run(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		for store, open := range pasts() {
			for name, when := range map[string]when{"cold": cold, "live": live} {
				if r.when&when != 0 {
					t.Run(r.name+"/"+store+"/"+name, func(t *testing.T) {
						t.Parallel()
						r.body(newWorld(t, open, "", when == live))
					})
				}
			}
		}
	}
}
