// Package ring decides which member of a cluster handles a key right now, for programs that share a
// registry and nothing else: no partitions, no records, no connections among each other.
//
// Each member joins under a name and asks ShouldHandle for every event it gets. There are two modes,
// fixed for the life of a ring:
//
//   - Anchor maps keys to members by consistent hashing (assign.Anchor). When one of N members comes
//     or goes, 1/N of the keys move. A leaving member and its heirs both answer yes for a short time,
//     so that no event falls between them. It is fast and small, and not exclusive.
//   - Table maps keys to a fixed number of slots and slots to members, with the protocol of consumer
//     groups: each slot has one owner at a time, under an epoch that grows with every change of owner.
//     At any time at most one member answers yes for a key where sessions end with their process or
//     their TTL only. PostgreSQL, Redis and MariaDB end them when the connections of a process are
//     lost, which is what makes a takeover fast; a member answers no from the moment that it notices
//     such a loss. One that was cut off and does not notice may answer yes beside its heir until the
//     TTL is over, under the lower epoch.
//
// All members see the same: one document of the registry, with a version, says which member owns
// what. It is changed by compare-and-set, and each member reads it again when it changes. In both
// modes a yes comes with an epoch, for writes to carry (a stale writer has a lower one), and it is
// given only while the member's session has certainly not run out. A member that can't reach the
// store keeps its last view until then (in a table ring: as long as no other can take it for dead),
// answers no afterwards, and comes back by itself.
//
// The documents of a ring <r>, all JSON:
//
//	rings/<r>/meta           mode and slots; written once
//	rings/<r>/members/<id>   a member of an anchor ring, bound to its session
//	rings/<r>/starts/<id>    the newest start of a member, bound to its session
//	rings/<r>/anchor         the anchor with its history, and its epoch
//	rings/<r>/table/groups/slots/…   the consumer group whose units are the slots of a table ring
package ring
