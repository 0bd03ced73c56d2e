// Package subscription delivers the records of a topic in order per key, also of the keys whose
// records fail: those are held for a moment, then parked in a journal and tried again, and become
// dead letters when they are given up, which people redrive in order.
//
// Shard is the part of it that runs: one unit of a consumer group. It is the shell of
// subscription/core: the journal's appends and its tail, the clock, and the pump of what is due.
// Catalog keeps the definitions, and Look reads a journal as anybody may.
package subscription
