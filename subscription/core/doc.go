// Package core is one shard of a subscription as a pure state machine: what of it is parked, what is
// a dead letter, what may be delivered next, and what has to be written down for it.
//
// There is no clock, no I/O, no goroutine and no randomness in here. The shell tells what happened
// by the methods of State and carries out what Effects returns.
//
// # The journal is the state
//
// A shard writes one journal, a partition of an internal topic. All that lasts is a fold over the
// records of it that count: State.Read is that fold, and nothing else changes what lasts. It is the
// same function when an heir rebuilds, when the owner reads back what it has written, and when
// somebody looks on. So an append is not done when the log has acknowledged it, but when it was read
// back without a higher fence before it.
//
// # Who may write
//
// Nobody keeps a stale owner from appending. A start appends a Fence; it counts when its epoch and
// run are above those of the last fence that counts. Another record counts when it comes from the
// tenure of the last fence that counts, with a sequence above all counted ones. Everything else is
// void for every reader, for ever: zombies, late copies of an append of unknown fate, and repeats.
//
// # A key
//
// A key state is what is known of one ordering key: its queue of parked records in order of origin, of
// which the first may be a dead letter that blocks it, and for each partition the highest origin that
// was ever parked. A main record at or below that is finished already, wherever a crash has put the
// reading back to. A record without a key has a key state of its own.
package core
