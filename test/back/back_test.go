package back

import "testing"

// row is a document that is forgotten.
type row struct {
	name string
	live bool // it is also tried with a producer and a member that live through it
	body func(w *world)
}

func TestNothingIsLostWhenTheRegistryGoesBack(t *testing.T) {
	t.Parallel()
	run(t, groups())
}

// run tries rows on all registries.
func run(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		for store, open := range pasts() {
			for name, live := range map[string]bool{"cold": false, "live": true} {
				if r.live || !live {
					t.Run(r.name+"/"+store+"/"+name, func(t *testing.T) {
						t.Parallel()
						r.body(newWorld(t, open, "", live))
					})
				}
			}
		}
	}
}
