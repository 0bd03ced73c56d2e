package main

// boundMutants are bugs that let somebody else's message, file or document do harm.
func boundMutants() []mutant {
	const redis, kafka = "registry/redisregistry", "commitlog/kafkalog"
	return []mutant{
		{
			name: "redis-relies-on-whoever-calls", breaks: "who may publish on a Redis silences all that notice deaths",
			file: redis + "/detector.go",
			find: "	if w.calling || w.s.gate.Pass(ctx) != nil {\n", put: "	if w.calling || w.s.gate.Pass(ctx) != nil || !w.quiet.After(time.Now()) {\n",
			pkg: redis, test: "TestAStrangerOnTheDetectorsChannelSilencesNobody$", server: "redis",
		},
		{
			name: "redis-waits-as-long-as-it-is-told", breaks: "one message keeps all from noticing deaths for as long as it likes",
			file: redis + "/detector.go",
			find: "min(max(pause, busyPause), idlePause)", put: "max(pause, busyPause, min(pause, idlePause))",
			pkg: redis, test: "TestACallWishesAndNoMore$",
		},
		{
			name: "redis-believes-what-a-string-declares", breaks: "a server ends the processes of its clients with one line",
			file: redis + "/frames.go",
			find: "n < 0 || n > limits.RedisStringBytes && !f.free:", put: "n < 0 || n > 1<<30*limits.RedisStringBytes && !f.free:",
			pkg: redis, test: "TestTheGuardRefusesWhatIsDeclared$",
		},
		{
			name: "redis-takes-answers-to-nothing", breaks: "a server that answers twice ends the processes of its clients",
			file: redis + "/guard.go",
			find: "		return refused(\"an answer that nobody asked for\")\n", put: "		return nil\n",
			pkg: redis, test: "TestTheGuardRefusesWhatIsDeclared$",
		},
		{
			name: "redis-mixes-ends-with-confirmations", breaks: "a server that ends a subscription among the confirmations of others ends the processes of its clients",
			file: redis + "/guard.go",
			find: "		if len(g.due) > 0 && g.due[0].begun {", put: "		if false {",
			pkg: redis, test: "TestTheGuardRefusesWhatIsDeclared$",
		},
		{
			name: "redis-takes-an-error-for-a-confirmation", breaks: "a server that refuses half of a subscription ends the processes of its clients",
			file: redis + "/guard.go",
			find: "	case head.begun:\n", put: "	case false:\n",
			pkg: redis, test: "TestTheGuardRefusesWhatIsDeclared$",
		},
		{
			name: "kafka-inflates-without-end", breaks: "some kB in a topic take all memory of its consumers",
			file: kafka + "/inflate.go",
			find: "io.LimitReader(r, limits.KafkaBatchBytes+1)", put: "io.LimitReader(r, 64*limits.KafkaBatchBytes)",
			pkg: kafka, test: "TestWhatDecompressesIsReadToItsLimit$",
		},
		{
			name: "kafka-reads-nothing-for-nothing", breaks: "records without a byte take all memory of a consumer",
			file: kafka + "/feed.go",
			find: " || len(dst)-had >= limits.KafkaReadRecords)", put: " || len(dst)-had >= 1<<10*limits.KafkaReadRecords)",
			pkg: kafka, test: "TestRecordsOfNothingAreBounded$",
		},
		{
			name: "a-fifo-keeps-whoever-opens-it", breaks: "a FIFO in the place of a file stops every process that opens the directory, for good",
			file: "internal/vfs/os.go",
			find: "!st.Mode().IsRegular() && !st.IsDir() {", put: "st.Mode().IsRegular() && st.IsDir() {",
			pkg: "internal/vfs", test: "TestWhatIsNoFileIsRefusedAtOnce$",
		},
		{
			name: "topics-of-any-size", breaks: "a definition in the registry takes all memory of whoever describes its topic",
			file: "topic/document.go",
			find: "	if n := d.Units(); n > registry.MaxUnits {\n", put: "	if n := d.Units(); n < 0 {\n",
			pkg: "topic", test: "TestADefinitionOfTooManyPartitionsIsRefused$",
		},
		{
			name: "damaged-topic-hides-all", breaks: "one bad definition makes every topic unlistable",
			file: "topic/catalog.go",
			find: "			list = append(list, Listed{Name: name, Err: err})\n", put: "			return nil, err\n",
			pkg: "internal/cli", test: "TestListsNameWhatCantBeRead$",
		},
		{
			name: "damaged-topic-hides-groups", breaks: "a group of one bad topic makes every group unlistable",
			file: "internal/cli/group.go",
			find: "		case unreadableDocument(err): // its topic's, say\n", put: "		case false:\n",
			pkg: "internal/cli", test: "TestListsNameWhatCantBeRead$",
		},
		{
			name: "rings-of-any-size", breaks: "a document in the registry takes all memory of whoever lists the rings",
			file: "ring/document.go",
			find: "m.Slots < 1 || m.Slots > maxSlots)", put: "m.Slots < 1 && m.Slots > maxSlots)",
			pkg: "ring", test: "TestADamagedRingHidesNoOther$",
		},
		{
			name: "snapshot-of-any-size", breaks: "a header in a directory takes all memory of whoever opens it",
			file: "registry/fileregistry/journal.go",
			find: "	if hdr.snapLen > uint64(max(size-pageSize, 0)) {\n", put: "	if false {\n",
			pkg: "registry/fileregistry", test: "TestTheLengthThatASnapshotClaimsIsNotBelieved$",
		},
		{
			name: "member-without-a-session", breaks: "an entry that a stranger wrote has a share of the units for ever, and nobody works on them",
			file: "registry/group.go",
			find: "			if e.Session == \"\" || decode(", put: "			if decode(",
			pkg: "registry", test: "TestWhatIsBoundToNoSessionOrCannotBeReadIsNoMember$",
		},
		{
			name: "member-that-cannot-be-read", breaks: "one entry of a member that can't be read has a member of no name in every reading",
			file: "registry/group.go",
			find: " || decode(e, &m) != nil || e.Key != g.MemberKey(m.ID) {", put: " || decode(e, &m) != nil && m.ID != \"\" {",
			pkg: "registry", test: "TestWhatIsBoundToNoSessionOrCannotBeReadIsNoMember$",
		},
		{
			name: "stray-keeps-its-units", breaks: "units of an entry that no member wrote are claimed in vain, for ever",
			file: "group/core/unit.go",
			find: "		claim.DeadVersion = s.placeOf(dead)\n", put: "		if _, ok := s.find(dead); ok {\n			claim.DeadVersion = s.placeOf(dead)\n		}\n",
			pkg: "group", test: "TestAMemberWithoutASessionHasNoShare$",
		},
		{
			name: "stray-keeps-its-place", breaks: "a member can't join where an entry of its ID is that no member wrote",
			file: "group/core/session.go",
			find: "	j.Seen = s.placeOf(s.cfg.Member)\n", put: "	if _, ok := s.find(s.cfg.Member); ok {\n		j.Seen = s.placeOf(s.cfg.Member)\n	}\n",
			pkg: "group", test: "TestAMemberWithoutASessionHasNoShare$",
		},
		{
			name: "ghost-stops-a-deletion", breaks: "an entry that no member wrote keeps a group from being deleted",
			file: "registry/meta.go",
			find: " && x.Session != \"\":", put: ":",
			pkg: "registry", test: "TestADeletionWaitsForNoMemberWithoutASession$",
		},
		{
			name: "force-reads-first", breaks: "a group whose document can't be read can't be removed by any command",
			file: "registry/meta.go",
			find: "			if decode(e, &m) != nil {\n", put: "			if err := decode(e, &m); err != nil {\n				return err\n			} else if m.Units < 0 {\n",
			pkg: "registry", test: "TestDestroyRemovesWhateverThereIs$",
		},
	}
}
