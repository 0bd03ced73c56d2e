// Package core is the daemon's side of remote sessions: which records are out in which session, what an answer does,
// and when a session is over. It has no clock, no goroutine and no I/O: each event comes with the time, and leaves
// effects, which the caller takes and carries out.
//
// Three rules carry the protocol. A client names line numbers, each given once in a session, so that what is repeated,
// late or out of order meets only the hand-out that it was meant for. The only sign of life is the newest line that was
// read, and it counts from when that line was sent. Each record line gets one answer, also one that is not the
// session's any more, and takes a place in the window until then.
package core
