// Package dispatch runs one unit of a consumer group: it reads records, calls a handler for each, and
// keeps the unit's progress.
//
// Records of different keys are handled at the same time, records of one key strictly in order and one
// at a time. A failing record is tried again with a growing pause and holds back only its own key.
// Progress is the lowest unfinished offset plus the finished ranges above it, so that a successor
// repeats only what was unfinished.
//
// # How it works
//
// The pure parts are tracker (which offsets are finished) and schedule (which record may run next);
// neither knows goroutines or clocks. Engine guards them with one mutex, and a pool of equal workers
// does everything else. A worker with nothing to run takes the reading role; when its read brings
// records, it passes the role on and runs the first of them itself. So a new record is one goroutine
// wake-up away from its handler, and nothing goes through a channel.
//
// A handler may return before its work is done, and answer later, see Later. Its record is out then: it
// has no worker, and counts as a handler at work.
//
// When handlers are fast, a worker claims many records at once. A claim is no queue of its own: when
// its worker turns out to be slow, the engine takes back the records that were not started.
package dispatch
