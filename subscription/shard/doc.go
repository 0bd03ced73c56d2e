// Package shard is one shard of a subscription at work: the journal, the pump of parked records, and the limits,
// around the pure state of package core.
//
// A record takes one way, and each step is a file:
//
//	Handle (handle.go): a main record                       pump.go: a parked record whose time has come
//	  filter.go    is it wanted?                              filter.go    can it be judged?
//	  due.go       may it be delivered yet?                   due.go       has its time come?
//	  key.go       directly, or parked behind its key           │
//	        └─────────────────────┬───────────────────────────────┘
//	                          permit.go    slots, tokens and a turn of the circuit; what they hold back is no attempt
//	                          deliver.go   the handler is called, and the circuit learns the outcome
//	                          outcome.go   done, later, again, parked, or a dead letter, by dispatch.Retry
//
// Journals reads the journal of any shard without owning it. The first paragraph of shard.go names the goroutines, and
// what each may do. One lock a shard guards the pure core: a goroutine that owned it would cost each delivery two
// hand-overs, and Handle runs on the engine's workers anyway.
package shard
