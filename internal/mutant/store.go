package main

// storeMutants are bugs of the stores that several machines share. Where no test without the
// server can tell, the mutant names the server.
func storeMutants() []mutant {
	const deadlines = "TestConformance$/a_session's_deadline_counts_from_when_its_renewal_was_sent"
	return []mutant{
		{
			name: "postgres-commits-without-the-fence", breaks: "a replaced owner overwrites the checkpoint of its successor, on PostgreSQL",
			file: "registry/pgregistry/schema.sql",
			find: "FROM want w JOIN held h ON h.key = w.ck AND h.version = w.cv\n", put: "FROM want w JOIN held h ON h.key = w.ck\n",
			pkg: "registry/pgregistry", test: "TestConformance$/groups_work_on_it", server: "postgres",
		},
		{
			name: "redis-checks-absence-only", breaks: "versions are not compared in the script, so that nothing is fenced",
			file: "registry/redisregistry/lua/apply.lua",
			find: "or '') ~= want then\n", put: "or '') ~= want and want == '' then\n",
			pkg: "registry/redisregistry", test: "TestConformance$/a_check_compares_versions_and_absence", server: "redis",
		},
		{
			name: "etcd-compares-nothing", breaks: "the transaction is sent without a condition that can fail",
			file: "registry/etcdregistry/apply.go",
			find: "clientv3.Compare(clientv3.ModRevision(s.root+c.Key), \"=\", revision(c.Version))", put: "clientv3.Compare(clientv3.ModRevision(s.root+c.Key), \">\", -1)",
			pkg: "registry/etcdregistry", test: "TestConformance$/a_check_compares_versions_and_absence", server: "etcd",
		},
		{
			name: "sql-checks-absence-only", breaks: "versions are not compared, so that nothing is fenced on MariaDB and SQLite",
			file: "registry/internal/sqlstore/apply.go",
			find: "have != c.Version {\n", put: "have != c.Version && c.Version == \"\" {\n",
			pkg: "registry/sqlregistry", test: "TestSQLiteConformance$/a_check_compares_versions_and_absence",
		},
		{
			name: "mariadb-reads-as-many-rows-as-the-server-likes", breaks: "with a limit on selects in the server, checks are not compared, in silence",
			file: "registry/sqlregistry/mysql.go",
			find: "sql_select_limit = 18446744073709551615, ", put: "",
			pkg: "registry/sqlregistry", test: "TestSettingsOfTheServerDoNoHarm$", server: "mariadb",
		},
		{
			name: "redis-lists-what-is-left", breaks: "a key that Redis evicted looks like a group that is not there yet, and is begun anew",
			file: "registry/redisregistry/lua/list.lua",
			find: "if count ~= call('ZCARD', KEYS[3]) or", put: "if count < 0 or",
			pkg: "registry/redisregistry", test: "TestALostKeyIsLoud$", server: "redis",
		},
		{
			name: "redis-may-evict-owners", breaks: "a Redis that is short of memory takes owners and sessions away, with nothing but a line in the log",
			file: "registry/redisregistry/prepare.go",
			find: "p != \"noeviction\" && info[\"maxmemory\"] != \"0\" {", put: "p != \"noeviction\" && info[\"maxmemory\"] == \"-\" {",
			pkg: "registry/redisregistry", test: "TestAServerThatMayEvictKeysIsRefused$", server: "redis",
		},
		{
			name: "mariadb-packets-of-any-size", breaks: "many large values in one call are refused by the server for ever",
			file: "registry/sqlregistry/mysql.go",
			find: "return int(min(n/2-(1<<20)-(64<<10), 3<<20)), nil", put: "return 0, nil",
			pkg: "registry/sqlregistry", test: "TestStatementsFitIntoThePacketsOfTheServer$", server: "mariadb",
		},
		{
			name: "postgres-lets-the-role-close-connections", breaks: "idle_session_timeout of a role ends the sessions of living members",
			file: "registry/pgregistry/dial.go",
			find: "SELECT set_config('idle_session_timeout', '0', false)", put: "SELECT current_setting('idle_session_timeout')",
			pkg: "registry/pgregistry", test: "TestSettingsOfTheRoleDoNoHarm$", server: "postgres",
		},
		{
			name: "sqlite-renews-behind-the-user", breaks: "a handler whose transaction takes longer than the TTL loses its session, and all bystanders theirs",
			file: "registry/internal/sqlstore/session.go",
			find: "res, err := s.cfg.Live.ExecContext(", put: "res, err := s.cfg.DB.ExecContext(",
			pkg: "registry/sqlregistry", test: "TestAUsersTransactionEndsNoSession$",
		},
		{
			name: "sqlite-writes-to-a-removed-file", breaks: "two owners after a file was replaced: who had it open goes on in the one that is gone",
			file: "registry/internal/sqlstore/transact.go",
			find: "	if err := s.cfg.Intact(); err != nil {\n", put: "	if err := error(nil); err != nil {\n",
			pkg: "registry/sqlregistry", test: "TestAFileThatWasReplacedIsWrittenToNoMore$",
		},
		{
			name: "sql-ignores-expiry", breaks: "a process that is stopped for good keeps its units on MariaDB and SQLite",
			file: "registry/internal/sqlstore/sighting.go",
			find: "{ return x.left <= 0 }", put: "{ return false }",
			pkg: "registry/sqlregistry", test: "TestSQLiteConformance$/a_frozen_process's_sessions_end",
		},
		{
			name: "deaths-noticed-once", breaks: "after one death nobody watches the processes that come later",
			file: "registry/internal/presence/watchers.go",
			find: "		case <-x.over:\n			delete(w.all, p)\n", put: "		case <-x.over:\n",
			pkg: "registry/internal/presence", test: "TestWatchersAreThoseThatWereSetLast$",
		},
		{
			name: "deaths-at-the-end-of-the-ring", breaks: "nobody watches the process with the lowest name, and its death takes as long as its TTL",
			file: "registry/internal/presence/presence.go",
			find: "slices.Concat(ring[at:], ring[:at])[:min(n, len(ring))]", put: "ring[at:][:min(n, len(ring)-at)]",
			pkg: "registry/internal/presence", test: "TestEveryDeathIsSeenBySomebodyAlive$",
		},
		{
			name: "deaths-of-the-nameless", breaks: "a session behind a proxy, which nobody can watch, has its process watched and another one not",
			file: "registry/internal/presence/presence.go",
			find: "!x.Over && x.Process != zero && x.Process != self", put: "!x.Over && x.Process >= zero && x.Process != self",
			pkg: "registry/internal/presence", test: "TestEachProcessWatchesThoseThatFollowIt$",
		},
		{
			name: "postgres-lease-from-the-answer", breaks: "a process believes in a session that has ended, on PostgreSQL",
			file: "registry/pgregistry/sessionkeeper.go",
			find: "	l := s.keeper.keep(x, ttl, opened)\n", put: "	opened, _ = lease.Ask(s.link.shown, func() error { return nil })\n	l := s.keeper.keep(x, ttl, opened)\n",
			pkg: "registry/pgregistry", test: deadlines, server: "postgres",
		},
		{
			name: "redis-lease-from-the-answer", breaks: "a process believes in a session that has ended, on Redis",
			file: "registry/redisregistry/session.go",
			find: "	s.mu.Lock()\n	defer s.mu.Unlock()\n	if s.closed {\n", put: "	opened, _ = lease.Ask(s.seen, func() error { return nil })\n	s.mu.Lock()\n	defer s.mu.Unlock()\n	if s.closed {\n",
			pkg: "registry/redisregistry", test: deadlines, server: "redis",
		},
		{
			name: "etcd-lease-from-the-answer", breaks: "a process believes in a session that has ended, on etcd",
			file: "registry/etcdregistry/session.go",
			find: "	id := granted.ID\n", put: "	opened, _ = lease.Ask(nil, func() error { return nil })\n	id := granted.ID\n",
			pkg: "registry/etcdregistry", test: deadlines, server: "etcd",
		},
		{
			name: "sql-lease-from-the-answer", breaks: "a process believes in a session that has ended, on MariaDB and SQLite",
			file: "registry/internal/sqlstore/session.go",
			find: "	return s.adopt(id, ttl, opened)\n", put: "	opened, _ = lease.Ask(s.link, func() error { return nil })\n	return s.adopt(id, ttl, opened)\n",
			pkg: "registry/sqlregistry", test: "TestMariaDBConformance$/a_session's_deadline_counts_from_when_its_renewal_was_sent", server: "mariadb",
		},
		{
			name: "transaction-without-the-fence", breaks: "a transaction of a replaced owner commits its effects",
			file: "registry/intx.go",
			find: "	if entries[0].Version != grant.Version {\n", put: "	if entries[0].Version == \"\" {\n",
			pkg: ".", test: "TestATransactionOfAStaleOwnerIsFenced$",
		},
	}
}
