package api

// Status is what is wrong in a namespace.
type Status struct {
	At            Time      `json:"at"`
	Findings      []Finding `json:"findings"` // the worst first, of those the oldest
	Topics        int       `json:"topics"`   // that were looked at, without those of subscriptions
	Groups        int       `json:"groups"`   // without those of subscriptions
	Subscriptions int       `json:"subscriptions"`
}

// Finding is one thing that is wrong.
type Finding struct {
	Severity Severity `json:"severity"`
	Kind     string   `json:"kind"` // for programs, one of the kinds below
	What     string   `json:"what"` // topic, group or subscription
	Name     string   `json:"name"`
	Cause    string   `json:"cause"`
	Since    Time     `json:"since,omitempty"`   // "": not known
	Command  string   `json:"command,omitempty"` // that mends it, or shows more; "": none does
}

// Severity says how much a finding matters.
type Severity string

// The severities, the worst first.
const (
	Critical Severity = "critical" // records wait, or are gone, and that does not end by itself
	Warning  Severity = "warning"  // something was decided, or needs a look
)

// The kinds of findings.
const (
	FoundUnreadable = "unreadable"  // a document can't be read or used
	FoundUnfinished = "unfinished"  // a creation, a deletion or a cut-over was begun, and did not end
	FoundNoMember   = "no-member"   // records wait, and no member is there
	FoundNoOwner    = "no-owner"    // records wait in units without a living owner
	FoundPaused     = "paused"      // by a user, or by an answer of the endpoint
	FoundBreaker    = "breaker"     // the endpoint or the handler does not work
	FoundDead       = "dead-letter" // records were given up
	FoundParked     = "parked"      // records fail and are tried again
	FoundBehind     = "behind"      // the oldest record has waited for long, though members live
	FoundDamage     = "damage"      // a checkpoint or the record there is damaged
	FoundDropped    = "dropped"     // retention took records that were not processed
	FoundForgotten  = "forgotten"   // the registry does not know what the log has of a topic
	FoundProblem    = "problem"     // something could not be looked at
	FoundMember     = "member"      // the entry of a member can't be read
	FoundSlow       = "slow"        // deliveries are slowed down, as most are refused
	FoundFailing    = "failing"     // a handler fails at a record again and again, and those of its key wait
)
