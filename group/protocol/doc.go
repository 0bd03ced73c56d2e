// Package protocol is what the members of a consumer group agree on: the documents that a group keeps in
// the registry, and the transactions that change them.
//
// A group shares units (the partitions of a topic, the shards of a subscription). Each unit has an owner
// entry and a checkpoint. A checkpoint is written under a check on the owner entry as it was granted, so
// the store itself refuses a former owner, and under one on the checkpoint before it, so a late write puts
// nothing back. Epochs number the owners of a unit and only rise.
//
// The documents are in document.go, the transactions in protocol.go.
//
// Package group/core decides when to send which transaction; this package builds them, and has the
// operations of people: seek, pause, grow, delete.
package protocol
