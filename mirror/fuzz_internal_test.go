package mirror

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/memtest"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// kindOf fails the test when an error has no kind that a caller can act on.
func kindOf(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.Invalid) {
		t.Fatalf("an error without a kind: %v", err)
	}
}

// A state that is accepted is one that copying can go on from, and comes back when it is stored.
func FuzzState(f *testing.F) {
	s := newState(5)
	for i := range int64(3) {
		s.matched(5+i, 9+i)
		s.Records += firstStride
	}
	b, err := json.Marshal(s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, int64(20))
	f.Add([]byte(`{"format":1,"producer":"1","from":5,"to":-1,"stride":1}`), int64(0))
	f.Add([]byte(`{"format":1,"producer":"1"}`), int64(0))
	f.Fuzz(func(t *testing.T, value []byte, at int64) {
		s, err := decodeState("k", value)
		if err != nil {
			kindOf(t, err)
			return
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeState("k", b)
		if err != nil || again.From != s.From || again.To != s.To || len(again.Anchors) != len(s.Anchors) {
			t.Fatalf("%+v comes back as %+v, %v", s, again, err)
		}
		before := len(s.Anchors)
		s.anchored(at, at)
		if n := len(s.Anchors); s.Stride < 1 || n > max(before, maxAnchors)+1 {
			t.Fatalf("one more anchor than %d makes %d, stride %d", before, n, s.Stride)
		}
	})
}

// A plan that is accepted has for each group its name, its document and its control.
func FuzzPlan(f *testing.F) {
	p := plan{
		Format: stateFormat, Document: &topic.Document{Name: "t"}, Source: []string{"t..0"},
		Groups: []protocol.Meta{{Topic: "t", Units: 2}}, Controls: []protocol.Control{{}}, Names: []string{"g"},
	}
	b, err := json.Marshal(p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"format":1,"document":{},"groups":[{}],"controls":[],"names":["g"]}`))
	f.Add([]byte(`{"format":2}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		p, err := decodePlan("k", value)
		if err != nil {
			kindOf(t, err)
			return
		}
		if p.Document == nil || len(p.Groups) != len(p.Names) || len(p.Controls) != len(p.Names) {
			t.Fatalf("%s is accepted as %+v", value, p)
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decodePlan("k", b); err != nil || !reflect.DeepEqual(p.Names, again.Names) || p.Done != again.Done {
			t.Fatalf("%+v comes back as %+v, %v", p, again, err)
		}
	})
}

// A checkpoint that is accepted for the target is one that a group can have, and comes back.
func FuzzCarried(f *testing.F) {
	f.Add(registry.Encode(carried{Checkpoint: protocol.Checkpoint{
		Epoch: 2, Positions: []protocol.Position{{Next: 4, Done: []protocol.Range{{6, 8}}}, {Partition: 1, Next: 9}},
	}, Applied: true}))
	for _, forged := range forgedCarried {
		f.Add([]byte(forged))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var c carried
		var err error
		memtest.AtMost(t, 64*len(value)+16<<10, value, func() { c, err = decodeCarried("k", value) })
		if err != nil {
			kindOf(t, err)
			return
		}
		again, err := decodeCarried("k", registry.Encode(c))
		if err != nil || again.Applied != c.Applied || len(again.Positions) != len(c.Positions) {
			t.Fatalf("%+v comes back as %+v, %v", c, again, err)
		}
		if err := protocol.CheckPositions(c.Positions); err != nil {
			t.Fatalf("%s is accepted: %v", value, err)
		}
	})
}

var forgedCarried = []string{
	`{"positions":[{"next":-4}]}`,
	`{"positions":[{"partition":-1,"next":4}]}`,
	`{"positions":[{"next":4,"done":[[9,3]]}]}`,
	`{"positions":[{"next":4},{"next":5}]}`,
	`{"positions":7}`,
}

func TestACheckpointThatNoGroupCanHaveIsNotCarriedOver(t *testing.T) {
	t.Parallel()
	for _, forged := range forgedCarried {
		if c, err := decodeCarried("mirrors/t/l/carried/g/00000000", []byte(forged)); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "mirrors/t/l/carried") {
			t.Errorf("%s: %+v, %v; expected fault.Corrupt and the key", forged, c, err)
		}
	}
}
