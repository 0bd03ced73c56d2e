// Package core is the protocol of a consumer group member as a pure state machine.
//
// Step takes one event and returns the effects that the shell must carry out: store calls, units to
// start, drain and stop, one timer. There is no I/O in here, no clock, no goroutine, no randomness
// and no map iteration, so the same events give the same effects, and a simulation can run many
// members through thousands of histories in a second.
//
// The store makes it safe: each checkpoint is written under a check on the owner entry's version as
// it was granted, so a stale member can't write, whatever it believes. This package makes it live,
// quick, and calm: units that need not move don't.
//
// The shape of a member's life:
//
//	OpenSession → Load → join (member entry bound to the session) → plan (assignment) → units
//	                ↑                                                                     │
//	                └────────────── session lost: stop everything, keep the grants ───────┘
//
// and of a unit on it, decided anew from the store's view and the local state whenever one changed:
//
//	idle ── claim, or handed over ──→ granted ── StartUnit ──→ running ── DrainUnit ──→ drained
//	  ↑                                                           │ StopUnit: fenced, late, stuck │
//	  └───────────── handoff: checkpoint + owner + epoch+1 in one transaction ────────────────────┘
package core
