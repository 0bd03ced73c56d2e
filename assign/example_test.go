package assign_test

import (
	"fmt"

	"github.com/ringfence/ringfence/assign"
)

// A third member joins: only the two units that it gets move.
func ExampleSticky() {
	next := assign.Sticky{}.Assign(assign.Request{
		Members: []assign.Member{{ID: "a"}, {ID: "b"}, {ID: "c"}},
		Current: []string{"a", "a", "a", "a", "b", "b", "b", "b"},
	})
	fmt.Println(next)
	// Output: [a a a c b b b c]
}

// The machine with weight 2 gets twice the units.
func ExampleSticky_weights() {
	next := assign.Sticky{}.Assign(assign.Request{
		Members: []assign.Member{{ID: "big", Weight: 2}, {ID: "small"}},
		Current: make([]string, 6),
	})
	fmt.Println(next)
	// Output: [big small big small big big]
}

func ExampleFairShare() {
	next := assign.FairShare{}.Assign(assign.Request{
		Members: []assign.Member{{ID: "a"}, {ID: "b"}, {ID: "c"}},
		Current: make([]string, 8),
	})
	fmt.Println(next)
	// Output: [a a a b b b c c]
}

func ExampleByName() {
	rule, err := assign.ByName("roundrobin")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rule.Assign(assign.Request{
		Members: []assign.Member{{ID: "a"}, {ID: "b"}},
		Current: make([]string, 4),
	}))
	// Output: [a b a b]
}
