package main

// forgedMutants are bugs that let one forged document stop, or mislead, those whom it is not of.
func forgedMutants() []mutant {
	return []mutant{
		{
			name: "producer-at-what-is-being-made", breaks: "one definition of a topic ends every process that lists topics or groups",
			file: "topic/sequence.go",
			find: "		case s.Creating && (i <= d.Produce || i < last):\n", put: "		case s.Creating && i < last:\n",
			pkg: "topic", test: "TestStorageTopicsThatCannotHaveFollowedEachOtherAreDamage$",
		},
		{
			name: "end-of-what-takes-records", breaks: "a forged end has members pass over acknowledged records in silence",
			file: "topic/sequence.go",
			find: "		case i >= d.Produce && len(s.Ends) > 0:\n", put: "		case i > d.Produce && len(s.Ends) > 0:\n",
			pkg: "topic", test: "TestStorageTopicsThatCannotHaveFollowedEachOtherAreDamage$",
		},
		{
			name: "sealed-for-nothing", breaks: "a forged switch has a process seal the only storage topic, for ever, and write a definition that nobody reads",
			file: "topic/sequence.go",
			find: "	if d.Switching && (d.Produce == last || d.Storage[d.Produce+1].Creating) {\n", put: "	if d.Switching && d.Produce < last && d.Storage[d.Produce+1].Creating {\n",
			pkg: "topic", test: "TestStorageTopicsThatCannotHaveFollowedEachOtherAreDamage$",
		},
		{
			name: "room-for-a-number", breaks: "a group of 2^20 units that are nothing but a number takes a gigabyte of whoever lists groups",
			file: "group/describe.go",
			find: "g.Sketch(ctx, checkpoints)", put: "g.Survey(ctx, checkpoints)",
			pkg: "group", test: "TestUnitsThatAreOnlyANumberTakeNoMemory$",
		},
		{
			name: "redis-half-a-transaction", breaks: "a key of another type has a transaction written by half, and called refused",
			file: "registry/redisregistry/lua/apply.lua",
			find: "if odd then return odd end\n", put: "",
			pkg: "registry/redisregistry", test: "TestAKeyOfAnotherTypeStopsNoTransactionMidway$", server: "redis",
		},
		{
			name: "finished-with-what-takes-records", breaks: "a forged document has a group pass over all acknowledged records in silence",
			file: "group/core/view.go",
			find: "m.First > s.layout.newest()\n", put: "m.First > len(s.layout)\n",
			pkg: "group/core", test: "TestAGroupThatIsFinishedWithWhatTakesRecordsIsRefused$",
		},
		{
			name: "not-heard-of-is-damage", breaks: "a member that has not heard of a growth yet ends with an error when the storage topic before it is retired",
			file: "group/core/view.go",
			find: "} else if s.beyond(ev.State.Meta) {\n", put: "} else if s.beyond(nil) {\n",
			pkg: "group/core", test: "TestAMemberLooksAtWhatItConsumesBeforeItCallsAGroupDamaged$",
		},
		{
			name: "retired-is-damage", breaks: "members of a shard set whose storage topic was retired end with an error",
			file: "group/core/view.go",
			find: "	return m != nil && !s.cfg.Closed && len", put: "	return m != nil && len",
			pkg: "group/core", test: "TestAGroupThatIsFinishedWithWhatTakesRecordsIsRefused$",
		},
		{
			name: "crowd-hides-the-living", breaks: "a table full of sessions has a process take its own for ended",
			file: "registry/pgregistry/query.go",
			find: "		ORDER BY session_id = ANY ($2) DESC, held DESC, left_ms LIMIT {sessions})\n", put: "		ORDER BY session_id = ANY ($2), held, left_ms LIMIT {sessions})\n",
			pkg: "registry/pgregistry", test: "TestACrowdOfSessionsHidesNobody$", server: "postgres",
		},
		{
			name: "crowd-without-a-bound", breaks: "a table full of sessions is read whole at every look, until no look comes to an end",
			file: "registry/pgregistry/query.go",
			find: "held DESC, left_ms LIMIT {sessions})\n", put: "held DESC, left_ms)\n",
			pkg: "registry/pgregistry", test: "TestACrowdOfSessionsHidesNobody$", server: "postgres",
		},
		{
			name: "cancels-without-the-key", breaks: "a process that looks after another one breaks as it connects, by a key that is half read",
			file: "registry/pgregistry/deathwatcher.go",
			find: "i.cancelled = i.made.Load(); i.cancelled {", put: "i.cancelled = true; i.cancelled {",
			pkg: "registry/pgregistry", test: "TestAConnectionThatIsNotMadeYetIsNotCancelledByItsKey$",
		},
		{
			name: "ends-are-believed", breaks: "a forged end of a sealed partition has a group leave acknowledged records out",
			file: "consumer/ends.go",
			find: "end != b.Next {\n", put: "end < 0 {\n",
			pkg: ".", test: "TestAnEndThatIsNotTheLogsIsTold$",
		},
		{
			name: "ends-are-looked-at-once", breaks: "an end that is forged later is believed by those who consume",
			file: "consumer/consumer.go",
			find: "			ends.look()\n", put: "",
			pkg: ".", test: "TestAnEndThatIsNotTheLogsIsTold$",
		},
		{
			name: "claims-what-nobody-knows", breaks: "a forged number of units has members claim tens of thousands that are not there, and give them back one by one",
			file: "group/core/unit.go",
			find: "	case len(s.layout) != 0 && n >= len(s.layout): //", put: "	case len(s.layout) != 0 && n < 0: //",
			pkg: "group/core", test: "TestNobodyClaimsUnitsThatHeHasNotHeardOf$",
		},
		{
			name: "forged-epoch-for-good", breaks: "a unit whose forged owner was put right is worked on by nobody until its member is started again",
			file: "group/core/unit.go",
			find: "	if v.Owner.Epoch < registry.MaxClaim { //", put: "	if v.Owner.Epoch <= registry.MaxEpoch { //",
			pkg: "group/core", test: "TestAForgedEpochIsForgottenWithItsEntry$",
		},
		{
			name: "carries-what-is-no-checkpoint", breaks: "a forged note of a mirror becomes a checkpoint at the target that nobody can read",
			file: "mirror/carried.go",
			find: "	if err := registry.CheckPositions(c.Positions); err != nil {\n", put: "	if err := error(nil); err != nil {\n",
			pkg: "mirror", test: "TestACheckpointThatNoGroupCanHaveIsNotCarriedOver$",
		},
		{
			name: "end-of-no-calendar", breaks: "a forged end of a journal makes the pause of a turn run over",
			file: "subscription/take.go",
			find: "f.At < 0 || f.At > lastMillis", put: "f.At == 0 && f.At > lastMillis",
			pkg: "subscription", test: "TestAnEndThatNoShardCanHaveWrittenIsRefused$",
		},
		{
			name: "any-fence-counts", breaks: "one forged fence leaves no epoch for a shard, which stands still until its subscription is deleted",
			file: "subscription/core/believe.go",
			find: "	return epoch <= max(", put: "	return epoch > 0 || epoch <= max(",
			pkg: ".", test: "TestAForgedFenceStopsNoShard$",
		},
		{
			name: "fences-in-any-steps", breaks: "a forged fence that is believed has the next owner's passed over",
			file: "subscription/core/believe.go",
			find: "max(s.level.Epoch, FarEpoch)+epochStep", put: "FarEpoch+epochStep",
			pkg: "subscription/core", test: "TestFencesAreBelievedStepByStep$",
		},
		{
			name: "disbelieved-at-the-checkpoint", breaks: "where a journal is read from a place on, the fence there counts for some readers and not for others",
			file: "subscription/core/believe.go",
			find: " || s.cfg.From > 0 && s.level == Tenure{}", put: "",
			pkg: "subscription/core", test: "TestFencesAreBelievedStepByStep$",
		},
		{
			name: "waits-for-a-fence-that-nobody-believes", breaks: "a shard whose owner was forged in the registry waits for ever, and says nothing",
			file: "subscription/core/believe.go",
			find: "	if own || bits", put: "	if bits",
			pkg: "subscription/core", test: "TestAnOwnerThatNobodyBelievesIsTold$",
		},
		{
			name: "end-of-no-shard", breaks: "a forged end of a journal sends the next shard set to places that no partition has",
			file: "subscription/take.go",
			find: "	if err := registry.CheckPositions(f.Positions); err != nil {\n", put: "	if err := error(nil); err != nil {\n",
			pkg: "subscription", test: "TestAnEndThatNoShardCanHaveWrittenIsRefused$",
		},
		{
			name: "pulsar-follows-any-retention", breaks: "a property that none of ours writes sets the retention of a topic that is open",
			file: "commitlog/pulsarlog/alter.go",
			find: "	c, err := decodeConfig(t.config.Name, m.Properties[configProperty])\n",
			put:  "	var c driver.TopicConfig\n	err := json.Unmarshal([]byte(m.Properties[configProperty]), &c)\n",
			pkg:  "commitlog/pulsarlog", test: "TestARetentionThatNoneOfOursWritesIsNotFollowed$",
		},
		{
			name: "sql-crowd-ends-the-living", breaks: "a table full of sessions has a process take its own for ended",
			file: "registry/internal/sqlstore/sighting.go",
			find: "	return is\n", put: "	return false\n",
			pkg: "registry/sqlregistry", test: "TestACrowdOfSessionsHidesNobody$/^SQLite$",
		},
		{
			name: "sql-crowd-without-a-bound", breaks: "a table full of sessions is read whole at every look",
			file: "registry/internal/sqlstore/sighting.go",
			find: "		if len(all) == limits.SQLSessions {\n", put: "		if len(all) < 0 {\n",
			pkg: "registry/sqlregistry", test: "TestACrowdOfSessionsHidesNobody$/^SQLite$",
		},
		{
			name: "kafka-one-answer-names-a-topic", breaks: "one wrong bit on the wire says that a topic was made anew, and has to be deleted",
			file: "commitlog/kafkalog/topics.go",
			find: "		case again[kafka].id != m.id || len", put: "		case len",
			pkg: "commitlog/kafkalog", test: "TestOneWrongAnswerIsNoOtherTopic$", server: "kafka",
		},
	}
}
