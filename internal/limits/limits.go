// Package limits has the bounds of what the decoders of stores, logs, files and network doors accept.
// Anything larger is an error that names it, before memory is allocated. docs/limits.md has the same table
// for people; a test compares the two.
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
)

// PulsarEntryBytes is an entry of Pulsar, decompressed.
const PulsarEntryBytes = 64 << 20

// Of a data directory.
const (
	FileBytes     = 64 << 20 // any file but a segment and a journal
	RegistryBytes = 1 << 30  // all of a registry, which its users hold in memory
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

// Of the API of a daemon.
const (
	RequestBytes       = 32 << 20 // the body of a request, such as records to produce
	RequestHeaderBytes = 64 << 10
	RequestRecords     = 10_000  // that one request may produce
	ProblemBytes       = 4 << 20 // that a client reads of an answer that is an error
)

// Of a POST of answers of a remote session.
const (
	AnswersBytes     = 4 << 20
	AnswerErrorBytes = 4 << 10    // of the error of a failed attempt; what is longer is cut
	AnswerRetryMS    = 86_400_000 // the longest pause that it may ask for
)
