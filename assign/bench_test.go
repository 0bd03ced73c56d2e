package assign_test

import (
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/assign"
)

// BenchmarkAssign is 10,000 units and 1,000 members, of which one just joined.
func BenchmarkAssign(b *testing.B) {
	for _, rule := range rules {
		b.Run(rule.Name(), func(b *testing.B) {
			req := assign.Request{Current: make([]string, 10_000)}
			for i := range 999 {
				req.Members = append(req.Members, assign.Member{ID: fmt.Sprintf("member-%03d", i)})
			}
			req.Current = rule.Assign(req)
			req.Members = append(req.Members, assign.Member{ID: "new"})
			moves := 0
			for b.Loop() {
				moves = assign.Moves(req, rule.Assign(req))
			}
			b.ReportMetric(float64(moves), "moves")
		})
	}
}
