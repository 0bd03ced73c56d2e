// Package dispatch runs one unit of a consumer group: it reads records, calls a handler for
// them, and knows how far it got.
//
// Records of different keys are handled at the same time, records of one key strictly in order
// and one at a time. A failing record is tried again with a growing pause and holds back only its
// own key. Progress is the lowest unfinished offset plus the finished ranges above it, so that a
// successor repeats only what was unfinished.
//
// # How it works
//
// The pure parts are tracker (which offsets are finished) and schedule (which record may run
// next); neither knows goroutines or clocks. Engine guards them with one mutex and lets a pool of
// equal workers do everything else: a worker with nothing to run takes the reading role, and when
// its read brought records, it passes the role on and runs the first of them itself. So a record
// that becomes readable is one goroutine wake-up away from its handler, and nothing is handed
// over a channel.
//
// A handler may return before its work is done, and answer later, see Later: its record is out then,
// has no worker, and counts as a handler at work.
//
// When handlers are fast, a worker claims many records at once. A claim is no queue of its own: claimed
// records that were not started are taken back as soon as their worker turns out to be slow.
package dispatch
