// Package presence is the failure detector of stores: which process watches which others, what a reading of the
// sessions means, and whose heartbeat has stopped. How a process shows that it lives depends on the store: by a
// lock, a FIFO, or a word in shared memory.
//
// The processes with sessions form a ring in the order of their names, and each watches its successors. So a
// death wakes few processes, and none goes unseen: the dead process behind a living one is watched by it, and
// once its sessions are ended the ring closes over the gap. A process without sessions only watches.
//
// A process that hangs, or a host that is gone, shows by time: the TTL of the sessions, by the clock of the
// store, or a heartbeat that stands still.
package presence

import (
	"cmp"
	"slices"
)

// Sighting is a session in a reading.
type Sighting[S comparable, P cmp.Ordered] struct {
	Session S
	Process P    // its process; the zero P can't be watched
	Over    bool // its end is being written, so its process need not be watched for it
	Silent  bool // its process showed no sign of life
}

// Reading is all sessions of a store, as they were at one moment.
type Reading[S comparable, P cmp.Ordered] []Sighting[S, P]

// Successors are the processes that self has to watch: the next n in the ring, or as many as there are.
func (r Reading[S, P]) Successors(self P, n int) []P {
	var zero P
	var ring []P
	for _, x := range r {
		if !x.Over && x.Process != zero && x.Process != self {
			ring = append(ring, x.Process)
		}
	}
	slices.Sort(ring)
	ring = slices.Compact(ring)
	at, _ := slices.BinarySearch(ring, self)
	return slices.Concat(ring[at:], ring[:at])[:min(n, len(ring))]
}

// In reports whether a process has a session in the ring.
func (r Reading[S, P]) In(process P) bool {
	return slices.ContainsFunc(r, func(x Sighting[S, P]) bool { return x.Process == process && !x.Over })
}

// Of are the sessions of processes, which end with them.
func (r Reading[S, P]) Of(processes ...P) (sessions []S) {
	for _, x := range r {
		if slices.Contains(processes, x.Process) {
			sessions = append(sessions, x.Session)
		}
	}
	return sessions
}

// Suspects are the silent processes other than self. The store still has to find out which of them died.
func (r Reading[S, P]) Suspects(self P) (processes []P) {
	var zero P
	for _, x := range r {
		if x.Silent && x.Process != zero && x.Process != self && !slices.Contains(processes, x.Process) {
			processes = append(processes, x.Process)
		}
	}
	return processes
}

// Missing are those of a process's own sessions, all from before the reading, that are not in it: others have
// ended them.
func (r Reading[S, P]) Missing(own []S) (sessions []S) {
	there := make(map[S]bool, len(r))
	for _, x := range r {
		there[x.Session] = true
	}
	for _, x := range own {
		if !there[x] {
			sessions = append(sessions, x)
		}
	}
	return sessions
}
