package benchkit

import (
	"slices"
	"testing"
)

// No turn parallel to others: the memory of parked records is that of the whole process.
func TestDeliverComparesSubscriptionsInOneRun(t *testing.T) {
	t.Setenv("BENCH_ALONE", "1") // which a parallel test may not
	r := check(t, &deliver{Records: 200, Partitions: 2, Failing: 20, Posts: 10, Parked: 2000, ParkedKeys: 100},
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
