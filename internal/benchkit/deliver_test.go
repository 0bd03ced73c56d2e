package benchkit

import (
	"slices"
	"testing"
)

// No turn parallel to others: the memory of parked records is that of the whole process.
func TestDeliverComparesSubscriptionsInOneRun(t *testing.T) {
	t.Setenv("BENCH_ALONE", "1") // which a parallel test may not
	r := checked(t, &deliver{Records: 200, Partitions: 2, Failing: 20, Posts: 10, Parked: 2000, ParkedKeys: 100},
		"Consume, empty handler", "subscription, empty handler",
		"20 records, none fails", "of 20 records, the first fifth fail",
		"two records of each of 20 keys, none fails", "of 20 keys, one fails", "of 20 keys, a tenth fail",
		"bare net/http client", "subscription with an endpoint",
		"new owner of 2,000 parked records, to its first delivery")
	for row, to := range map[int]int{1: 0, 3: 2, 5: 4, 6: 4, 8: 7} {
		if r.Rows[row].To != r.Rows[to].Name {
			t.Errorf("%q is compared with %q; expected %q", r.Rows[row].Name, r.Rows[row].To, r.Rows[to].Name)
		}
	}
	var needs []float64
	for _, f := range r.Figures {
		needs = append(needs, f.Need)
	}
	if want := []float64{0.8, 1e6, 0.9, 0.97, 0.8, 0.7, 10, 300}; !slices.Equal(needs, want) {
		t.Errorf("required are %v; expected %v: %q", needs, want, names(r.Figures))
	}
	if f := r.Figures[7]; f.Median < 50 { // a parked record's origin, place and times alone are as much
		t.Errorf("parked records take %+v; expected more than that", f)
	}
}

func TestReshardMeasuresTheWaitAndTheOrder(t *testing.T) {
	t.Parallel()
	r := checked(t, &reshards{Partitions: 4, Shards: []int{2, 4, 3}, Rate: 500, Keys: 20, Parked: 40, ParkedKeys: 10},
		"longest wait of a record, no change", "longest wait of a record, the shards change", "longest wait of a record, the topic grows")
	if len(r.Figures) != 3 || r.Figures[2].Median != 0 || r.Figures[0].Need != 1000 || r.Figures[1].Need != 1000 {
		t.Errorf("figures %+v; expected the longest waits, and none out of order", r.Figures)
	}
}

func TestALoadSeesWhatIsLostDoubledOrOutOfOrder(t *testing.T) {
	t.Parallel()
	value := func(n byte) []byte { return append([]byte{n}, make([]byte, 99)...) }
	for name, c := range map[string]struct {
		numbers        []byte
		wrong, doubled int64
	}{
		"in order": {[]byte{0, 1, 2}, 0, 0},
		"doubled":  {[]byte{0, 1, 1, 2}, 0, 1},
		"swapped":  {[]byte{0, 2, 1}, 1, 1},
		"lost":     {[]byte{0, 1}, 1, 0},
	} {
		l := newKeyLoad(nil, "", 2, 1)
		l.sent.Store(3)
		for _, n := range c.numbers {
			if err := l.take([]byte("1"), value(n)); err != nil {
				t.Fatal(err)
			}
		}
		if l.wrong() != c.wrong || l.doubled.Load() != c.doubled {
			t.Errorf("%s: %d wrong and %d doubled; expected %d and %d", name, l.wrong(), l.doubled.Load(), c.wrong, c.doubled)
		}
	}
	if err := newKeyLoad(nil, "", 2, 1).take([]byte("7"), value(0)); err == nil {
		t.Error("a record of an unknown key was taken")
	}
}

func TestOutageMeasuresHowSoonAnEndpointIsBack(t *testing.T) {
	t.Parallel()
	r := checked(t, &outages{Partitions: 2, Keys: 50, Rate: 300, Down: 100}, "an endpoint is back, until it gets the full rate")
	if len(r.Figures) != 3 || r.Figures[1].Need != 2*4096 || r.Figures[2].Median != 0 {
		t.Errorf("figures %+v; expected the time, the copies and none out of order", r.Figures)
	}
}
