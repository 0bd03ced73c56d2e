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
			find: "m.First > s.layout.newest():\n", put: "m.First > len(s.layout):\n",
			pkg: "group/core", test: "TestAGroupThatIsFinishedWithWhatTakesRecordsIsRefused$",
		},
		{
			name: "retired-is-damage", breaks: "members of a shard set whose storage topic was retired end with an error",
			file: "group/core/view.go",
			find: "	case !s.cfg.Closed && len(s.layout) != 0 && m.Units <= len(s.layout) && m.First", put: "	case len(s.layout) != 0 && m.Units <= len(s.layout) && m.First",
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
	}
}
