// Package subscription delivers the records of a topic in order per key, also of keys whose records fail. A failing
// record is held for a moment, then parked in a journal and tried again. A record that is given up becomes a dead
// letter, which an operator redrives in order.
//
// The package holds three things, a file for each subject:
//
//   - definitions: document.go, sets.go, decode.go; Catalog keeps them in the registry;
//   - what operators ask and order: deadletters.go, order.go, why.go, backlog.go, reshard.go, grow.go, reset.go,
//     delete.go, pause.go, limits.go;
//   - members: subscriber.go follows a definition and joins the group of each shard set that has to run, unit.go puts
//     a shard around the engine of each unit, handover.go lets one shard set follow another.
//
// Package shard is one shard at work, package core its pure state. Only the journals know what is parked, and name it
// by offsets of the topic: every move or deletion of a group or topic asks here first (guard.go).
package subscription
