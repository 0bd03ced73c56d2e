package main

// enemyMutants are bugs of what stands when somebody else has written into the store.
func enemyMutants() []mutant {
	return []mutant{
		{
			name: "journal-of-holes", breaks: "a sparse journal of terabytes is read to its end, and fills the disk with the other one",
			file: "registry/fileregistry/space.go",
			find: "	if size > limits.JournalBytes {", put: "	if size > 1<<62 {",
			pkg: "registry/fileregistry", test: "TestAJournalOfTerabytesOfNothingIsRefusedAtOnce$/journal-1$",
		},
		{
			name: "redis-large-entry-breaks-the-list", breaks: "one entry of 3 MiB breaks the list of all groups",
			file: "registry/redisregistry/lua/list.lua",
			find: "if size > largest then", put: "if size < 0 then",
			pkg: "registry/redisregistry", test: "TestAnEntryThatNoneOfOursWroteHarmsNoOther$", server: "redis",
		},
		{
			name: "redis-session-without-end", breaks: "an entry whose session has no end breaks every list and every write that meets it",
			file: "registry/redisregistry/lua/apply.lua",
			find: "  if stop then -- else somebody else wrote it\n", put: "  if stop ~= false then\n",
			pkg: "registry/redisregistry", test: "TestAnEntryThatNoneOfOursWroteHarmsNoOther$", server: "redis",
		},
		{
			name: "redis-revision-without-bound", breaks: "a revision of somebody else makes entries that nobody can read",
			file: "registry/redisregistry/lua/apply.lua",
			find: "or revision >= 9e12 or", put: "or",
			pkg: "registry/redisregistry", test: "TestARevisionThatNobodyCountedIsTold$", server: "redis",
		},
		{
			name: "units-without-a-topic", breaks: "a group of a million units, whose topic has two, takes gigabytes in each member",
			file: "group/core/view.go",
			find: "m.Units > len(s.layout)+maxAhead:", put: "m.Units > len(s.layout)+1<<40:",
			pkg: "group/core", test: "TestAGroupFarAheadOfItsTopicIsRefused$",
		},
		{
			name: "cut-journal-is-forgotten", breaks: "once a shard has gone on, nothing tells that what it had parked is lost",
			file: "subscription/shard.go",
			find: "		if s.cut {\n", put: "		if s.cut && from < 0 {\n",
			pkg: ".", test: "TestAJournalThatSomebodyElseTrimmedIsTold$",
		},
		{
			name: "cut-journal-is-not-shown", breaks: "describe says nothing of parked records that somebody has trimmed away",
			file: "subscription/whole.go",
			find: "	case from < b.First:\n", put: "	case from < 0:\n",
			pkg: ".", test: "TestAJournalThatSomebodyElseTrimmedIsTold$",
		},
		{
			name: "any-key-is-an-entry", breaks: "a key of a megabyte is a row of each list, and no deletion of its group ends",
			file: "registry/registry.go",
			find: "		if CheckKey(e.Key) == nil {\n", put: "		if CheckKey(e.Key) == nil || true {\n",
			pkg: "registry", test: "TestWhatCanNotBeAKeyIsNoEntry$",
		},
		{
			name: "listener-of-the-future", breaks: "a row of a listener that somebody dated in the future stays for ever, and each change looks for it",
			file: "registry/sqlregistry/mysqlsignals.go",
			find: "AND UNIX_TIMESTAMP() + ?\"", put: "AND 1e19 + ?\"",
			pkg: "registry/sqlregistry", test: "TestAListenerThatComesBackKeepsItsRow$", server: "mariadb",
		},
		{
			name: "a-set-is-joined-unseen", breaks: "a shard set of more shards than the topic has partitions panics every process that serves",
			file: "subscription/delivery/subscriber.go",
			find: "c.CheckTopic(ctx, as); err != nil {", put: "c.CheckTopic(ctx, as); err != nil && as == nil {",
			pkg: ".", test: "TestAShardSetThatCanNotBeSharedIsNoPanic$",
		},
	}
}
