package harness

import (
	"iter"
	"reflect"
	"testing"
	"time"
)

func TestPlanFollowsFromItsSeed(t *testing.T) {
	t.Parallel()
	troubles := []Trouble{
		{Name: "a", Hurts: 1, Hold: [2]time.Duration{0, time.Second}},
		{Name: "b", Hurts: 1, Hold: [2]time.Duration{time.Second, time.Minute}},
		{Name: "c", Hurts: 0},
		{Name: "d", Hurts: 2, Hold: [2]time.Duration{time.Second, time.Second}},
		{Name: "e", Hurts: 2, Alone: true},
	}
	pairs := 0
	for seed := range uint64(200) {
		next, stop := iter.Pull(Plan(seed, troubles, time.Second))
		defer stop()
		met := [2]map[string]int{{}, {}}
		for s := range Plan(seed, troubles, time.Second) {
			if s.Round > 1 {
				break
			}
			if again, _ := next(); !reflect.DeepEqual(s, again) {
				t.Fatalf("seed %d: %v the first time, and then %v", seed, s, again)
			}
			for _, x := range s.Injections {
				met[s.Round][x.Name]++
				if x.Hold < x.Trouble.Hold[0] || x.Hold > x.Trouble.Hold[1] {
					t.Errorf("seed %d: %q lasts %s", seed, x.Name, x.Hold)
				}
			}
			if len(s.Injections) > 1 {
				pairs++
				if s.Injections[0].Hurts >= s.Injections[1].Hurts || s.Injections[0].Alone || s.Injections[1].Alone {
					t.Errorf("seed %d: %q and %q come at once", seed, s.Injections[0].Name, s.Injections[1].Name)
				}
			}
		}
		for _, k := range troubles {
			if met[0][k.Name] != 1 || met[1][k.Name] != 1 {
				t.Errorf("seed %d: %q comes %d times in the first round and %d times in the second; expected 1 and 1",
					seed, k.Name, met[0][k.Name], met[1][k.Name])
			}
		}
	}
	if pairs == 0 {
		t.Error("no two troubles ever come at once")
	}
	for s := range Plan(1, nil, time.Second) {
		t.Errorf("a plan of nothing has %v", s)
	}
}
