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
			find: "			case e.Session == \"\" || failed == nil && m.ID != id:\n", put: "			case failed == nil && m.ID != id:\n",
			pkg: "registry", test: "TestWhatIsBoundToNoSessionOrCannotBeReadIsNoMember$",
		},
		{
			name: "member-that-cannot-be-read", breaks: "one entry of a member that can't be read has a member of no name in every reading",
			file: "registry/group.go",
			find: "				m = unreadable(id)\n", put: "				m.ID = id\n",
			pkg: "registry", test: "TestAMemberThatCannotBeReadIsOneWhileItsSessionLives$",
		},
		{
			name: "member-of-a-newer-version-is-dead", breaks: "units of a live member whose entry can't be read are taken over",
			file: "group/core/view.go",
			find: "(s.view.Members[i].Unreadable || s.view", put: "(s.view",
			pkg: "group", test: "TestAMemberThatCannotBeReadKeepsItsUnitsWhileItsSessionLives$",
		},
		{
			name: "member-of-a-newer-version-hangs", breaks: "units of a live member whose entry can't be read are taken over after a while",
			file: "group/core/unit.go",
			find: "	case s.unknown(o.Member):\n", put: "	case false:\n",
			pkg: "group", test: "TestAMemberThatCannotBeReadKeepsItsUnitsWhileItsSessionLives$",
		},
		{
			name: "damaged-unit-is-taken", breaks: "a partition whose checkpoint can't be read is begun anew, and one whose owner can't be read is taken over",
			file: "group/core/unit.go",
			find: "	case !u.granted && v.Damage() != nil:\n", put: "	case false:\n",
			pkg: "group", test: "TestAUnitThatCannotBeReadStopsNoOther$",
		},
		{
			name: "damaged-unit-stops-its-group", breaks: "one entry that can't be read stops all members of its group",
			file: "registry/group.go",
			find: "			u.CheckpointDamage = &DamagedUnitError{u.Number, err}\n			continue\n", put: "			return nil, err\n",
			pkg: "group", test: "TestAUnitThatCannotBeReadStopsNoOther$",
		},
		{
			name: "damaged-unit-for-all", breaks: "who needs all of a group's progress takes a checkpoint that can't be read for none",
			file: "registry/group.go",
			find: "		if err := st.Units[i].Damage(); err != nil {\n", put: "		if err := st.Units[i].Damage(); err != nil && i < 0 {\n",
			pkg: "registry", test: "TestWhatCannotBeReadIsAnErrorWhereAllIsNeeded$",
		},
		{
			name: "seek-mends-nothing", breaks: "a partition whose owner can't be read stands still for ever",
			file: "registry/checkpoint.go",
			find: "		if errors.Is(err, fault.Corrupt) { // whoever", put: "		if err == nil && o.Epoch < 0 { // whoever",
			pkg: "group", test: "TestAUnitThatCannotBeReadStopsNoOther$",
		},
		{
			name: "seek-goes-by-what-cannot-be-read", breaks: "retention drops what a partition was sent to, as its old checkpoint can't be read",
			file: "consumer/hold.go",
			find: " || unread[i]) {", put: " || unread[i] && p.Storage < 0) {",
			pkg: ".", test: "TestASeekOfWhatCannotBeReadHoldsBeforeItMoves$",
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
