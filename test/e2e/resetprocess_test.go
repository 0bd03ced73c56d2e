package e2e_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/ringfence/ringfence"
)

// Members are killed as kill -9 does in the middle of three resets, while two keys are parked behind poison.
// Each time all comes again from the beginning, each key in its order; there is one dead letter a poison
// record, and at the end the poisoned keys come through too.
func TestDeliverersKilledInTheMiddleOfResetsLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	const all = 14
	d := deliverUnderFire(t, 3, 3)
	d.produce(all)
	from := 0
	through := func(of func(key string) bool) func() bool {
		return func() bool {
			data := d.seen()
			for k := range deliveredKeys {
				key := fmt.Sprintf("k%d", k)
				if got := sinceTheFirst(data[from:], key); of(key) && orderOf(t, got)[key] < all {
					return false
				}
			}
			return true
		}
	}
	for turn := range 3 {
		eventually(t, "all records of the good keys", through(goodKey))
		failed := d.givenUp()
		if !maps.EqualFunc(failed, poison, func(got []int, want int) bool { return slices.Equal(got, []int{want}) }) {
			t.Errorf("dead letters %v", failed)
		}
		from = len(d.seen())
		d.start()
		_, err := d.rf.Admin().ResetSubscription(t.Context(), "s", ringfence.SeekEarliest, nil)
		must(t, err)
		eventually(t, "the place in the reset where one is killed", func() bool {
			s, err := d.rf.Admin().GetSubscription(t.Context(), "s")
			must(t, err)
			return []bool{true, s.Set().PauseMS > 0, !s.Changing()}[turn] || !s.Changing()
		})
		d.kill()
		turned(t, d.rf, "s")
	}
	d.mend()
	eventually(t, "all records", func() bool {
		_, err := d.rf.Admin().RedriveDeadLetters(t.Context(), "s", nil) // those that were given up before it was mended
		must(t, err)
		return through(anyKey)()
	})
	d.cleared()
}

// sinceTheFirst is what was seen of a key from the last time on that its first record came.
func sinceTheFirst(data []byte, key string) []byte {
	first := fmt.Appendf(nil, "%s 0\n", key)
	at := bytes.LastIndex(data, first)
	if at < 0 {
		return nil
	}
	var out []byte
	for line := range bytes.Lines(data[at:]) {
		if bytes.HasPrefix(line, []byte(key+" ")) {
			out = append(out, line...)
		}
	}
	return out
}
