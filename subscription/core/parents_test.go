package core

import "testing"

// Two shards go on for two in the next storage topic, each after one of them. Of each parked record one is the
// heir, whatever its key; and a reset takes over what lies before it, or nothing.
func TestEachParkedRecordHasOneHeir(t *testing.T) {
	t.Parallel()
	home := func(o Origin, key []byte) int {
		if o.Storage == 1 || key == nil {
			return int(o.Partition)
		}
		return int(key[0]) % 2
	}
	h := &Parents{Storage: 1, After: [][]int{{1}, {0}}, Home: home}
	for _, c := range []struct {
		what string
		old  int
		at   Origin
		key  []byte
		heir int
	}{
		{"a key goes where the router sends it", 0, Origin{}, []byte{1}, 1},
		{"the other one too", 1, Origin{Partition: 1}, []byte{2}, 0},
		{"a key in a partition of its producer's choosing", 0, Origin{}, []byte{2}, 1},
		{"a record without a key", 1, Origin{Partition: 1}, nil, 0},
	} {
		for heir := range 2 {
			if got := h.Takes(heir, c.old)(c.at, c.key); got != (heir == c.heir) {
				t.Errorf("%s: shard %d takes it: %t", c.what, heir, got)
			}
		}
	}
	for _, c := range []struct {
		anew, shed     bool
		earlier, later bool
	}{{false, false, true, true}, {true, false, true, false}, {true, true, false, false}} {
		h := &Parents{Storage: 1, After: [][]int{{0}}, Home: func(Origin, []byte) int { return 0 }, Anew: c.anew, Shed: c.shed}
		takes := h.Takes(0, 0)
		if earlier, later := takes(Origin{}, nil), takes(Origin{Storage: 2}, nil); earlier != c.earlier || later != c.later {
			t.Errorf("anew %t, shed %t: of an earlier storage topic %t, of a later one %t", c.anew, c.shed, earlier, later)
		}
	}
}
