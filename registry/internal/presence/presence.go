// Package presence is the failure detector of a store: which process watches which others, what
// follows from a reading of the sessions, and whose heartbeat has stopped. How one process sees
// that another lives is the store's: a lock, a FIFO, a word in shared memory.
//
// The processes that have sessions form a ring in the order of their names, and each watches those
// that follow it. So few look at one and a death wakes few, and yet none goes unseen: of those that
// died, the one behind the nearest living process is watched by that, and when its sessions are
// ended the ring closes over the gap. A process without a session stands in the ring only to watch.
//
// What nobody watches for, a process that hangs or an entire host that is gone, is told by time:
// by the TTL of the sessions, as the store counts it, or by a heartbeat that stands still.
package presence

import (
	"cmp"
	"slices"
)

// Sighting is a session as somebody saw it.
type Sighting[S comparable, P cmp.Ordered] struct {
	Session S
	Process P    // whose it is; the zero P: of one that can't be watched
	Over    bool // its end is known, and being written: its process is not watched for it
	Silent  bool // nothing was seen of its process when somebody looked
}

// Reading is all sessions of a store, as they were at one moment.
type Reading[S comparable, P cmp.Ordered] []Sighting[S, P]

// Successors are the processes that self has to watch: the n that follow it in the ring, or as many
// as there are.
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

// In says whether a process stands in the ring with a session of its own.
func (r Reading[S, P]) In(process P) bool {
	return slices.ContainsFunc(r, func(x Sighting[S, P]) bool { return x.Process == process && !x.Over })
}

// Of are the sessions of processes, which end with them.
func (r Reading[S, P]) Of(processes ...P) (sessions []S) {
	of := make(map[P]bool, len(processes))
	for _, p := range processes {
		of[p] = true
	}
	for _, x := range r {
		if of[x.Process] {
			sessions = append(sessions, x.Session)
		}
	}
	return sessions
}

// Suspects are the processes other than self of which nothing was seen. It is for whoever asks
// them next to say which of those have died.
func (r Reading[S, P]) Suspects(self P) (processes []P) {
	var zero P
	known := map[P]bool{zero: true, self: true} // as many as there are: anybody may write sessions
	for _, x := range r {
		if x.Silent && !known[x.Process] {
			known[x.Process] = true
			processes = append(processes, x.Process)
		}
	}
	return processes
}

// Missing are those of somebody's own sessions, all from before the reading, that are not in it:
// others have ended them.
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
