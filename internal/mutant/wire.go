package main

// wireMutants are bugs that let whoever listens in the place of a server end or fill a process that
// asks it.
func wireMutants() []mutant {
	const sqlregistry = "registry/sqlregistry"
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
	}
}
