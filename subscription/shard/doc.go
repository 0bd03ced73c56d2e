// Package shard is one shard of a subscription at work: the journal, the pump of parked records, and the limits,
// around the pure state of package core.
//
// A record takes one way, and each step is a file:
//
//	filter → due          admit.go, delay.go    Handle, or Held when the engine gives a failing record away
//	state of its key      core: Admit           delivered directly, parked behind its key, or finished already
//	limits                permit.go             slots, tokens and the circuit of a Limiter; what they hold back is no attempt
//	deliver               deliver.go            the handler is called, and the circuit learns the outcome
//	outcome               dispatch.Retry.Next   tried again, parked, or a dead letter; core: Park, Attempted
//
// A parked record comes from the pump (shard.go) and takes the same way from its limits on. Journals reads the
// journal of any shard without owning it. The first paragraph of shard.go names the goroutines, and what each may do.
package shard
