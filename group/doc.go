// Package group makes a process a member of a consumer group: a set of members that share the units
// of a topic (its partitions, say), each unit with one owner at a time.
//
// Run blocks, runs a Worker for each unit that the member owns, and stores its progress. The Worker
// decides how to work on a unit; package dispatch has the engine that reads records and calls
// handlers.
//
// The promises, and what keeps them:
//
//   - A unit has one owner at each epoch. The store itself refuses a checkpoint of an earlier owner:
//     it checks the write against the owner entry as it was granted.
//   - When members come and go only the units that must move do; the others go on untouched.
//   - A unit that moves is drained first, and given away in one transaction with its last checkpoint:
//     nothing is processed twice, and the unit always has an owner.
//   - The units of a dead member are taken over as soon as the store notices the death, in one
//     reading and one write.
//   - A member that can't reach the store stops its handlers before others may take its units, and
//     goes on by itself when the store is back.
//
// The protocol is package core, a pure state machine; this package gives it a clock, a store and
// goroutines.
package group
