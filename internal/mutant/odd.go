package main

// oddMutants are bugs by which what somebody else wrote into a store stops, hides or keeps what is ours.
func oddMutants() []mutant {
	return []mutant{
		{
			name: "postgres-session-for-ever", breaks: "one row of a session that never ends stops all takeovers on PostgreSQL",
			file: "registry/pgregistry/query.go",
			find: ".sweep_1($1 || ARRAY(SELECT o.id FROM odd o))", put: ".sweep_1($1 || ARRAY(SELECT o.id FROM odd o WHERE false))",
			pkg: "registry/pgregistry", test: "TestASessionThatNoneOfUsOpenedIsEndedAndTheOthersAreSeen$", server: "postgres",
		},
		{
			name: "postgres-null-is-no-end", breaks: "a session whose end is null is never ended on PostgreSQL, nor named",
			file: "registry/pgregistry/query.go",
			find: "interval '{longest}') IS NOT TRUE", put: "interval '{longest}') IS FALSE",
			pkg: "registry/pgregistry", test: "TestWhoOnlyLooksEndsASessionThatNoneOfUsOpened$", server: "postgres",
		},
		{
			name: "postgres-lookers-believe-for-ever", breaks: "what is bound to a session that never ends is there for who only looks, on PostgreSQL",
			file: "registry/pgregistry/sessionkeeper.go",
			find: "err != nil || !found {\n		return err", put: "err != nil || found || !found {\n		return err",
			pkg: "registry/pgregistry", test: "TestWhoOnlyLooksEndsASessionThatNoneOfUsOpened$", server: "postgres",
		},
		{
			name: "sql-session-for-ever", breaks: "a session that somebody made up lives for 292,000 years on MariaDB and SQLite, or one stops all rounds",
			file: "registry/internal/sqlstore/sighting.go",
			find: "AND expires BETWEEN 0 AND %s + %d THEN", put: "AND %s + %d > 0 THEN",
			pkg: "registry/sqlregistry", test: "TestSessionsThatNoneOfUsOpenedAreEndedAndTheOthersAreSeen$/SQLite",
		},
		{
			name: "sql-any-type-of-a-session", breaks: "a session with a text for a time stops all rounds on SQLite",
			file: "registry/sqlregistry/sqlite.go",
			find: "\"typeof(ttl) = 'integer' AND typeof(expires) = 'integer' AND typeof(id) = 'text' AND", put: "\"typeof(id) <> '' AND",
			pkg: "registry/sqlregistry", test: "TestSessionsThatNoneOfUsOpenedAreEndedAndTheOthersAreSeen$/SQLite",
		},
		{
			name: "sql-odd-session-keeps-its-entries", breaks: "what is bound to a session that somebody made up stays, on MariaDB and SQLite",
			file: "registry/internal/sqlstore/sighting.go",
			find: "WHERE session_id IN (SELECT id FROM ringfence_sessions WHERE \" + s.sound()", put: "WHERE session_id IN (SELECT id FROM ringfence_sessions WHERE 1 + \" + s.sound()",
			pkg: "registry/sqlregistry", test: "TestWhatIsBoundToASessionThatNoneOfUsOpenedIsGoneAtOpen$/SQLite",
		},
		{
			name: "mariadb-keeps-orphans", breaks: "what is bound to a session that is not there stays for ever on MariaDB",
			file: "registry/sqlregistry/mysql.go",
			find: "'', 0, 0 FROM ringfence_entries WHERE \" + orphaned", put: "'', 0, 0 FROM ringfence_entries WHERE FALSE AND \" + orphaned",
			pkg: "registry/sqlregistry", test: "TestWhatIsBoundToASessionThatNoneOfUsOpenedIsGoneAtOpen$/MariaDB", server: "mariadb",
		},
		{
			name: "sessions-of-any-length", breaks: "a TTL is accepted that every store takes for one that somebody made up",
			file: "registry/registry.go",
			find: "ttl < MinSessionTTL || ttl > MaxSessionTTL {", put: "ttl < MinSessionTTL {",
			pkg: "registry", test: "TestASessionHasALongestTTL$",
		},
		{
			name: "damaged-reads-as-empty", breaks: "a registry without the row of its revision reads as one without anything in it, on MariaDB and SQLite",
			file: "registry/internal/sqlstore/store.go",
			find: "	if err == nil && !whole {", put: "	if err == nil && !whole && from == nil {",
			pkg: "registry/sqlregistry", test: "TestARegistryThatLacksARowIsDamagedAndNotEmpty$/SQLite",
		},
		{
			name: "changes-without-a-number", breaks: "without the row of the revision writes go on and nobody is told, on MariaDB and SQLite",
			file: "registry/internal/sqlstore/listen.go",
			find: "err != nil || n == 0 {\n		return cmp.Or", put: "err != nil || n < 0 {\n		return cmp.Or",
			pkg: "registry/sqlregistry", test: "TestARegistryThatLacksARowIsDamagedAndNotEmpty$/SQLite",
		},
		{
			name: "used-schema-is-made-again", breaks: "a registry in use without its schema's row is made whole in silence, on MariaDB and SQLite",
			file: "registry/internal/sqlstore/schema.go",
			find: "	return err == nil && n > 0\n", put: "	return err == nil && n < 0\n",
			pkg: "registry/sqlregistry", test: "TestARegistryThatLacksARowIsDamagedAndNotEmpty$/SQLite",
		},
		{
			name: "absent-keys-without-locks", breaks: "without the rows of its slots nothing keeps two from making one key on MariaDB",
			file: "registry/internal/sqlstore/rows.go",
			find: "	if err == nil && len(found) < len(ids) {", put: "	if err == nil && len(found) > len(ids) {",
			pkg: "registry/sqlregistry", test: "TestARegistryThatLacksARowIsDamagedAndNotEmpty$/MariaDB", server: "mariadb",
		},
		{
			name: "postgres-without-a-format", breaks: "a schema without the row of its format is taken for whole on PostgreSQL",
			file: "registry/pgregistry/schema.go",
			find: "	if level < 1 {", put: "	if level < 0 {",
			pkg: "registry/pgregistry", test: "TestASchemaThatLacksARowIsDamaged$", server: "postgres",
		},
		{
			name: "postgres-tells-some-changes", breaks: "without a row of its counters some changes are told to nobody behind a proxy, on PostgreSQL",
			file: "registry/pgregistry/schema.go",
			find: "	if counters < 16 {", put: "	if counters < 1 {",
			pkg: "registry/pgregistry", test: "TestASchemaThatLacksARowIsDamaged$", server: "postgres",
		},
		{
			name: "mariadb-any-engine", breaks: "a table without transactions is taken over, and nothing fences any more",
			file: "registry/sqlregistry/mysqltables.go",
			find: " || !strings.EqualFold(engine, \"InnoDB\") {", put: " {",
			pkg: "registry/sqlregistry", test: "TestATableThatIsNoneOfOursIsRefused$", server: "mariadb",
		},
		{
			name: "mariadb-any-collation", breaks: "a table whose keys ignore case makes two keys one",
			file: "registry/sqlregistry/mysqltables.go",
			find: "case f.kind != c.kind:", put: "case false:",
			pkg: "registry/sqlregistry", test: "TestATableThatIsNoneOfOursIsRefused$", server: "mariadb",
		},
		{
			name: "mariadb-no-primary-key", breaks: "of two that create a key in a table without a primary key both have done so",
			file: "registry/sqlregistry/mysqltables.go",
			find: "case f.primary != (i == 0):", put: "case f.primary && i > 0:",
			pkg: "registry/sqlregistry", test: "TestATableThatIsNoneOfOursIsRefused$", server: "mariadb",
		},
		{
			name: "postgres-unlogged", breaks: "a registry whose tables are empty after a crash of the server is used",
			file: "registry/pgregistry/tables.go",
			find: "{persistence != \"p\",", put: "{false,",
			pkg: "registry/pgregistry", test: "TestATableThatIsNotAsWeMakeItIsRefused$", server: "postgres",
		},
		{
			name: "postgres-writes-that-are-swallowed", breaks: "a trigger drops what was acknowledged",
			file: "registry/pgregistry/tables.go",
			find: "{triggers > 0,", put: "{false,",
			pkg: "registry/pgregistry", test: "TestATableThatIsNotAsWeMakeItIsRefused$", server: "postgres",
		},
		{
			name: "postgres-made-twice", breaks: "of two processes that start at once behind a proxy the second may fail",
			file: "registry/pgregistry/schema.go",
			find: "tx.QueryRow(ctx, isMade, s.schema)", put: "tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, s.q.schema+\".format\")",
			pkg: "registry/pgregistry", test: "TestASchemaThatSomebodyMakesMeanwhileIsTakenWhateverTheServerProcessKnew$", server: "postgres",
		},
		{
			name: "postgres-session-on-a-dead-connection", breaks: "no session can be opened after a server has restarted, once for each idle connection",
			file: "registry/pgregistry/sessionkeeper.go",
			find: "s.onLive(ctx, ", put: "s.urgent(ctx, ",
			pkg: "registry/pgregistry", test: "TestASessionIsOpenedWhateverBecameOfIdleConnections$", server: "postgres",
		},
	}
}
