package group_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/memregistry"
)

func TestALayoutSaysWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	reg := memregistry.New()
	defer reg.Close()
	unit := func(inputs ...group.UnitInput) group.LayoutUnit { return group.LayoutUnit{Inputs: inputs} }
	for _, c := range []struct {
		layout group.Layout
		want   string // "": nothing is wrong
	}{
		{group.Layout{unit(group.UnitInput{}, group.UnitInput{Partition: 1}), unit(group.UnitInput{Partition: 2})}, ""},
		{group.Layout{unit()}, "unit 0 reads 0 partitions"},
		{group.Layout{unit(make([]group.UnitInput, protocol.MaxInputs+1)...)}, "reads 1025 partitions; expected 1 to 1024"},
	} {
		err := group.Config{Registry: reg, Group: "g", Topic: "t", Member: "m", Layout: c.layout}.Validate()
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v; expected %q", c.layout, err, c.want)
		}
	}
}
