package pulsarlog

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

// Nobody knows what a hold that can't be read was there to keep.
func TestADamagedHoldStopsRetention(t *testing.T) {
	t.Parallel()
	sound := metadata{Properties: map[string]string{holdPrefix + "a": "[7,-1]", holdPrefix + "b": "[9,3]", "other": "[1,1]"}}
	for partition, want := range []int64{7, 3} {
		if at, err := heldBy(sound, partition); err != nil || at != want {
			t.Errorf("partition %d is held from %d, %v; expected %d", partition, at, err, want)
		}
	}
	for _, damaged := range []string{"", "nonsense", "null", "[]", "[5]", `{"0":5}`, `["5","5"]`, "[5,"} {
		sound.Properties[holdPrefix+"damaged"] = damaged
		if at, err := heldBy(sound, 1); !errors.Is(err, fault.Corrupt) {
			t.Errorf("beside the hold %q retention may drop what is below %d, %v; expected ErrCorrupt", damaged, at, err)
		}
	}
}
