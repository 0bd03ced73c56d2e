package measure

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestInterleaveShiftsTheOrderAndDropsTheWarmUp(t *testing.T) {
	t.Parallel()
	var order []string
	contestant := func(name string) Contestant {
		n := 0.0
		return Contestant{Name: name, Run: func(context.Context) (Sample, error) {
			order = append(order, name)
			n++
			return Sample{Value: n}, nil
		}}
	}
	rests := 0
	series, err := Interleave(t.Context(), 3, []Contestant{contestant("a"), contestant("b"), contestant("c")}, func() { rests++ })
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(order, ""), "abc"+"abc"+"bca"+"cab"; got != want {
		t.Errorf("order %s; want %s", got, want)
	}
	if rests != 12 {
		t.Errorf("rested %d times; want 12", rests)
	}
	for _, s := range series {
		if len(s.Samples) != 3 || s.Min() != 2 || s.Max() != 4 || s.Median().Value != 3 {
			t.Errorf("%s: %v; want 2, 3, 4", s.Name, s.Samples)
		}
	}
}

func TestInterleaveNamesWhoFailed(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	_, err := Interleave(t.Context(), 1, []Contestant{{Name: "a", Run: func(context.Context) (Sample, error) { return Sample{}, boom }}}, func() {})
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "a, round 0") {
		t.Errorf("got %v", err)
	}
}
