package core

import "time"

// Line is a line of a session on its way down.
type Line struct {
	N          int64
	Kind       Kind
	Unit       *Unit
	Record     *Record
	Records    []int64       // of Cancel and Lost: lines
	Checkpoint int64         // of Assigned and Revoked: the next offset; -1: none was stored
	Other      string        // the member that the unit comes from or goes to
	Why        string        // for people; of Goodbye, a word of the protocol
	Until      time.Duration // of Revoke, and of a Goodbye that is not the last line
}

// Kind is the kind of a line.
type Kind uint8

// The kinds.
const (
	Opened Kind = iota
	Assigned
	Handed
	Cancel
	Revoke
	Revoked
	Lost
	Beat
	Goodbye
)

// mark says when the lines above the mark before, up to n, were sent.
type mark struct {
	n  int64
	at time.Duration
}

// Post is what a client sends up.
type Post struct {
	Seen     int64
	Done     []int64
	Failed   []Failure
	Released []int64
	Commit   int64
}

// Failure is a failed attempt.
type Failure struct {
	N                 int64
	Error             string
	Pause             time.Duration
	Permanent, Outage bool
}

// Refusal is an answer that was not taken.
type Refusal struct {
	N   int64
	Why Why
}

// Why says why an answer was refused.
type Why string

// The refusals.
const (
	Fenced   Why = "fenced"   // the record is not the session's any more, and is delivered again
	Conflict Why = "conflict" // there was another answer, which counts
	Unknown  Why = "unknown"  // it was never given, or answered long ago
)
