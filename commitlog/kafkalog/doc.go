// Package kafkalog keeps a commit log in Apache Kafka (3.1 or newer, KRaft or not), through
// franz-go's connections and our own requests.
//
// A storage topic is a Kafka topic of the same name, and its records are plain Kafka records:
// key, value, headers and timestamp as any client sees them. What is ours:
//
//   - An append is one Kafka batch, or shares one with its neighbours: a batch is what Kafka
//     stores whole or not at all. One batch per partition is on its way; what comes meanwhile
//     forms the next one. So one caller gets the latency of a round trip, and many get large
//     batches, without a linger time.
//   - Each (producer id, epoch, sequence) is carried by Kafka's own producer id, epoch and
//     sequence, so that the broker itself refuses duplicates, gaps and stale epochs (identity.go).
//   - Seal makes the broker refuse every later batch (seal.go).
//   - Reads go from a buffer per reading position, which is refilled ahead (feed.go); waiting
//     readers share one long poll per broker (poll.go).
package kafkalog
