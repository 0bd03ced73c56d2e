package topic

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

// A definition whose storage topics can't have followed each other counts for nothing: only what was sealed
// has an end, which is that of all of its partitions.
func TestStorageTopicsThatCannotHaveFollowedEachOtherAreDamage(t *testing.T) {
	t.Parallel()
	sound := func() *Document {
		return &Document{Format: format, Name: "t", Life: "a", State: Ready, Router: Modulo, Hash: XXHash64, Produce: 1, Storage: []Storage{
			{Name: "t..0.a", Partitions: 2, K: 1, Ends: []int64{3, 0}}, {Name: "t..1.a", Partitions: 4, K: 2}, {Name: "t..2.a", Partitions: 4, K: 2},
		}}
	}
	read := func(d *Document) error {
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		_, err = decode("topics/t", b)
		return err
	}
	for name, change := range map[string]func(*Document){
		"sound":         func(*Document) {},
		"a retired one": func(d *Document) { d.Storage[0].Retired, d.Storage[0].Ends = true, nil },
	} {
		if d := sound(); read(d) != nil || func() error { change(d); return read(d) }() != nil {
			t.Errorf("%s: %v", name, read(d))
		}
	}
	for name, change := range map[string]func(*Document){
		"the one that takes records ends":       func(d *Document) { d.Storage[1].Ends = []int64{0, 0, 0, 0} },
		"one partition of it ends":              func(d *Document) { d.Storage[1].Ends = []int64{7} },
		"the next one ends":                     func(d *Document) { d.Storage[2].Ends = []int64{0, 0, 0, 0} },
		"of one before, a partition has no end": func(d *Document) { d.Storage[0].Ends = []int64{3} },
		"one before has no end":                 func(d *Document) { d.Storage[0].Ends = nil },
	} {
		d := sound()
		change(d)
		if err := read(d); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), `"topics/t"`) {
			t.Errorf("%s: %v; expected damage that names the key", name, err)
		}
	}
}
