// Package limits is the one place of what we take at most from somebody else: a store, a log, a file,
// a message. What is larger is refused with an error that names it, before there is memory for it.
// docs/limits.md is the same table for people, and a test compares the two.
package limits

// EtcdAnswerBytes is the largest answer that etcd's client takes.
const EtcdAnswerBytes = 512 << 20

// PostgresMessageBytes is the largest row or notification that PostgreSQL's client takes.
const PostgresMessageBytes = 8 << 20

// Of Kafka: what the client takes, and what producers wrote.
const (
	KafkaFetchBytes  = 100 << 20 // an answer of a broker
	KafkaBatchBytes  = 64 << 20  // a batch, decompressed
	KafkaReadRecords = 1 << 16   // of one reading: records without bytes cost memory, too
	KafkaHoldBytes   = 256 << 10 // a hold, or its key: offsets of 4096 partitions need a third
	KafkaHoldsBytes  = 64 << 20  // the holds of all topics of a log, with their keys
)

// PulsarEntryBytes is an entry of Pulsar, decompressed.
const PulsarEntryBytes = 64 << 20

// Of a directory, the files that are read as a whole.
const (
	TopicFileBytes  = 1 << 20
	FormatFileBytes = 4 << 10
	FileBytes       = 64 << 20 // an index, a hold, a trim, a control page
	RegistryBytes   = 1 << 30  // all of a registry, which its users hold in memory
	JournalBytes    = 6 << 30  // a file of its journal: a snapshot, and room for four times as much
)

// Of a topic in a directory.
const (
	SegmentFileBytes = 1<<30 + 64<<20 + 4<<20 // the largest segment, a frame beyond it, the header and its copy
	MissingSegments  = 1 << 16                // of which a page, a header or a frame says that they were there
)

// Of what the settings name.
const (
	PasswordFileBytes = 64 << 10 // a token may be long
	SettingsFileBytes = 4 << 20  // a configuration file, certificates, a key
)

// Of an endpoint of a subscription.
const (
	EndpointAnswerBytes = 64 << 10 // what it answers: its headers, and as much again of what follows
	EndpointConnections = 2048     // it may take no second request of any
)
