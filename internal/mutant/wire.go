package main

// wireMutants are bugs that let whoever listens in the place of a server end or fill a process that
// asks it.
func wireMutants() []mutant {
	const (
		sqlregistry = "registry/sqlregistry"
		kafkalog    = "commitlog/kafkalog"
	)
	return []mutant{
		{
			name: "columns-as-declared", breaks: "who listens in the place of a MariaDB takes all memory with a dozen bytes",
			file: "registry/sqlregistry/mysqlpackets.go",
			find: "	if columns > limits.SQLColumns {\n", put: "	if columns > limits.SQLColumns<<30 {\n",
			pkg: sqlregistry, test: "TestPacketsAreFollowedHoweverTheyAreCut$",
		},
		{
			name: "packets-are-joined", breaks: "who listens in the place of a MariaDB fills the memory with one answer",
			file: "registry/sqlregistry/mysqlpackets.go",
			find: "	case p.length > limits.SQLPacketBytes:\n", put: "	case p.length > limits.SQLPacketBytes<<8:\n",
			pkg: sqlregistry, test: "TestPacketsAreFollowedHoweverTheyAreCut$",
		},
		{
			name: "answer-of-mariadb-without-bound", breaks: "who listens in the place of a MariaDB sends rows for ever",
			file: "registry/sqlregistry/mysqlpackets.go",
			find: "	case p.bytes > limits.SQLAnswerBytes:\n", put: "	case p.bytes > limits.SQLAnswerBytes<<8:\n",
			pkg: sqlregistry, test: "TestPacketsAreFollowedHoweverTheyAreCut$",
		},
		{
			name: "panic-of-a-pool", breaks: "who listens in the place of a MariaDB ends a process with a short packet",
			file: "registry/sqlregistry/mysqlshield.go",
			find: "		if p := recover(); p != nil {\n", put: "		if p := error(nil); p != nil {\n",
			pkg: sqlregistry, test: "TestAStrangerInThePlaceOfAMariaDBIsRefused$",
		},
		{
			name: "reads-on-for-ever", breaks: "a MariaDB that goes on with an answer that nobody wants is heard past every time-out",
			file: "registry/sqlregistry/mysqlshield.go",
			find: "SetDeadline(time.Now().Add(endings))", put: "SetDeadline(time.Time{})",
			pkg: sqlregistry, test: "TestAStrangerInThePlaceOfAMariaDBIsRefused$",
		},
		{
			name: "tls-if-a-mariadb-likes", breaks: "who stands between has a login go in the clear, as the greeting that it passes on offers no TLS",
			file: "registry/sqlregistry/mysqlwire.go",
			find: "	case !c.AllowFallbackToPlaintext:\n", put: "	case !c.AllowFallbackToPlaintext && offers:\n",
			pkg: sqlregistry, test: "TestAMariaDBThatOffersNoTLSIsRefused$",
		},
		{
			name: "counts-what-is-declared", breaks: "who listens in the place of a Kafka has a process count for minutes, past every time-out",
			file: "commitlog/kafkalog/walk.go",
			find: "w.tags > limits.KafkaTags || n > left/2 {\n", put: "w.tags < 0 {\n",
			pkg: kafkalog, test: "TestTaggedFieldsOfAnAnswerAreKeptAsBytes$",
		},
		{
			name: "tagged-fields-are-read", breaks: "who listens in the place of a Kafka fills the memory with a list within a tagged field",
			file: "commitlog/kafkalog/walk.go",
			find: "			b[0] = 0x7f\n", put: "			b[0] &= 0x7f\n",
			pkg: kafkalog, test: "TestTaggedFieldsOfAnAnswerAreKeptAsBytes$",
		},
		{
			name: "half-an-answer", breaks: "who listens in the place of a Kafka ends a process with an answer of a byte, and fills the memory with lists that are longer than it",
			file: "commitlog/kafkalog/walk.go",
			find: "	if w.skip > 0 || w.asking != nothing {\n", put: "	if w.skip < 0 {\n",
			pkg: kafkalog, test: "TestAnswersOfKafkaAreFollowedHoweverTheyAreCut$",
		},
		{
			name: "answer-of-kafka-without-bound", breaks: "who listens in the place of a Kafka fills the memory with one answer",
			file: "commitlog/kafkalog/wire.go",
			find: "	case size > most:\n", put: "	case size > most<<4:\n",
			pkg: kafkalog, test: "TestAWireKnowsWhatWasAsked$",
		},
		{
			name: "answer-to-something-else", breaks: "what a broker says to one question is taken for the answer to another",
			file: "commitlog/kafkalog/wire.go",
			find: "	case binary.BigEndian.Uint32(a.header[4:]) != d.correlation:\n", put: "	case d.key < 0:\n",
			pkg: kafkalog, test: "TestAWireKnowsWhatWasAsked$",
		},
		{
			name: "partition-below-zero", breaks: "who listens in the place of a Kafka ends every process that looks for topics",
			file: "commitlog/kafkalog/cluster.go",
			find: "p.Partition >= 0 && int(p.Partition) < n", put: "int(p.Partition) < n",
			pkg: kafkalog, test: "TestAPartitionBelowZeroIsNone$",
		},
		{
			name: "library-says-on", breaks: "an endpoint with frames of HTTP/2 that nobody knows fills the disk with the log of whoever delivers to it",
			file: "internal/cli/logger.go",
			find: "	if l.told == libraryLines {\n", put: "	if l.told < 0 {\n",
			pkg: "internal/cli", test: "TestAPackageThatLogsWithoutEndIsCutShort$",
		},
		{
			name: "fate-of-no-check", breaks: "who is between a process and its PostgreSQL ends it with one number, or has it take what was not written for written",
			file: "registry/pgregistry/apply.go",
			find: "if answer, err = a.call(ctx, c, text); err == nil {\n", put: "if answer, err = a.call(ctx, c, text); err == nil && sound == nil {\n",
			pkg: "registry/pgregistry", test: "TestAnAnswerAboutSomethingElseLeavesTheOutcomeUnknown$", server: "postgres",
		},
		{
			name: "row-without-a-key", breaks: "who listens in the place of a PostgreSQL ends a process with a row of no columns",
			file: "registry/pgregistry/locked.go",
			find: "			if len(row) != 1 {\n", put: "			if len(row) > 1 {\n",
			pkg: "registry/pgregistry", test: "TestARowWithoutAKeySaysThatNothingIsLocked$", server: "postgres",
		},
	}
}
