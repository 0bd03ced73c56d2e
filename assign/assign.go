// Package assign computes who should own what: pure functions from units and members to an
// assignment, the same on every machine.
package assign

// Member takes part in an assignment.
type Member struct {
	ID     string
	Weight int    // its share relative to the others; 0 means 1
	Zone   string // where it runs; "": anywhere
}

// Request is what an assignor decides on.
type Request struct {
	Members []Member // any order; IDs are distinct
	Current []string // by unit: the member that owns it now, or ""; its length is the number of units
	Zones   []string // by unit: the zone where it is best owned; nil or "": anywhere
}

// Assignment is the member ID that should own each unit; "" only when there are no members.
type Assignment []string

// Assignor is a rule. Assign is deterministic: it depends on the content of the request only,
// not on the order of Members.
type Assignor interface {
	Name() string // as stored in group documents: "fair", "roundrobin", "sticky"
	Assign(Request) Assignment
}
