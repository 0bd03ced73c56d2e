// Package core is one shard of a subscription as a pure state machine: what of it is parked, what is a
// dead letter, what may be delivered next, and what has to be written down for it.
//
// There is no clock, no I/O, no goroutine and no randomness in here. The shell reports events by the
// methods of State and carries out what Effects returns.
//
// # The journal is the state
//
// A shard writes one journal, a partition of an internal topic. All that lasts is a fold over the
// valid records of it: State.Read is that fold, and nothing else changes what lasts. The same function
// serves an heir that rebuilds, an owner that reads back what it has written, and any other reader. So
// an append is done when it was read back without a higher fence before it, and not when the log has
// acknowledged it.
//
// # The right to write
//
// Nothing keeps a stale owner from appending. A start appends a Fence; it counts when its epoch and
// run are above those of the last fence that counts. Another record counts when it comes from the
// tenure of the last fence that counts, with a sequence above all counted ones. Everything else is
// void for every reader, for ever: zombies, late copies of an append of unknown outcome, and repeats.
//
// # A key
//
// A key state is what is known of one ordering key: its queue of parked records in order of origin, of
// which the first may be a dead letter that blocks it, and for each partition the highest origin that
// was ever parked. A main record at or below that is finished already, however far a crash has put the
// reading back. A record without a key has a key state of its own.
package core
