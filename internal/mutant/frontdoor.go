package main

// frontDoorMutants are bugs between the front door and what lies below it.
func frontDoorMutants() []mutant {
	return []mutant{
		{
			name: "hold-after-the-first-record", breaks: "retention drops what a group that ran for a moment has not processed",
			file: "consumer/consumer.go",
			find: "	hold.Begin(ctx)\n", put: "",
			pkg: ".", test: "TestRetentionKeepsWhatAGroupThatRanForAMomentNeeds$",
		},
		{
			name: "seek-holds-nothing", breaks: "a group that is sent back finds that retention dropped what it was sent to",
			file: "consumer/seek.go",
			find: "	if err := hold.Descend(ctx, infos); err != nil {\n", put: "	if err := hold.Descend(ctx, infos[:0]); err != nil {\n",
			pkg: ".", test: "TestASeekHoldsBeforeItMoves$",
		},
		{
			name: "held-only-where-records-drop", breaks: "a retention that comes later drops what an idle group has not processed",
			file: "consumer/hold.go",
			find: "	if last := h.told[storage]; slices", put: "	if last := h.told[storage]; !h.drops() || slices",
			pkg: ".", test: "TestARetentionThatComesLaterKeepsWhatAnIdleGroupNeeds$",
		},
		{
			name: "no-second-try-to-hold", breaks: "a retention that comes later drops what a running group has not processed, because its first hold could not be stored",
			file: "consumer/hold.go",
			find: "			if h.drops() || h.missing() {\n", put: "			if h.drops() {\n",
			pkg: "consumer", test: "TestAHoldThatCouldNotBeStoredIsTriedAgainThoughNothingIsDropped$",
		},
		{
			name: "dry-run-alters", breaks: "a dry run changes the retention of a topic",
			file: "alter.go",
			find: "	if opts != nil && opts.DryRun {\n", put: "	if opts == nil && change.Done {\n",
			pkg: ".", test: "TestADryRunSaysWhatAShorterRetentionDrops$",
		},
		{
			name: "failed-commit-counts", breaks: "a record whose CommitIn failed is skipped",
			file: "transaction.go",
			find: "	c.written, c.before = c.written || err == nil,", put: "	c.written, c.before = true,",
			pkg: ".", test: "TestACommitInThatFailedCountsForNothing$", limit: "60s",
		},
		{
			name: "second-commit-counts", breaks: "a record whose handler calls CommitIn twice in one transaction is skipped, and its effect lost",
			file: "transaction.go",
			find: "	if c.called && errors.Is(err, fault.Exists) {\n", put: "	if false && errors.Is(err, fault.Exists) {\n",
			pkg: ".", test: "TestCommitInTwiceInOneTransactionLosesNothing$/sqlite$", limit: "60s",
		},
		{
			name: "committed-and-tried-again", breaks: "a record that is committed blocks its key for ever",
			file: "transaction.go",
			find: "		case m.commit.before:\n			return nil\n", put: "		case m.commit.before:\n			return err\n",
			pkg: ".", test: "TestWhatWasCommittedBeforeIsNotTriedAgain$", limit: "60s",
		},
		{
			name: "tail-ahead-of-the-seal", breaks: "a look at a topic shows a key's records of the next storage topic before its earlier ones",
			file: "tail.go",
			find: "			if errors.Is(b.err, io.EOF) {\n				open--\n", put: "			if errors.Is(b.err, io.EOF) {\n				open = 0\n",
			pkg: ".", test: "TestTailFollowsATopicThatGrows$",
		},
		{
			name: "damaged-group-hides-all", breaks: "one damaged document of one group makes every group unlistable",
			file: "admin.go",
			find: "		if errors.Is(err, ErrCorrupt) ||", put: "		if errors.Is(err, ErrSealed) ||",
			pkg: ".", test: "TestADamagedGroupHidesNoOther$",
		},
		{
			name: "groups-share-checkpoints", breaks: "a group that gets nowhere sends another back, or skips its records",
			file: "registry/group.go",
			find: "checkpoints: \"checkpoints/\" + name + \"/\"", put: "checkpoints: \"checkpoints/all/\"",
			pkg: ".", test: "TestAGroupIsAsFastBesideASlowAndAPoisonedOneAsAlone$",
		},
		{
			name: "heir-of-the-first-input", breaks: "an heir begins a unit's second partition from its start",
			file: "consumer/unit.go",
			find: "= strconv.Itoa(u.Number()), start, dispatch", put: "= strconv.Itoa(u.Number()), start[:min(1, len(start))], dispatch",
			pkg: "consumer", test: "TestAUnitReadsTwoPartitionsAndItsHeirRepeatsNothing$/memory",
		},
		{
			name: "latest-of-the-first-input", breaks: "a crash before the first checkpoint skips records of a unit's second partition",
			file: "consumer/unit.go",
			find: "		if !none(i) {\n", put: "		if !none(i) || len(at) > 0 {\n",
			pkg: "consumer", test: "TestLatestIsStoredForAllThatAUnitReads$",
		},
		{
			name: "seek-by-another-layout", breaks: "a seek moves another unit than the one that reads the partition",
			file: "consumer/layout.go",
			find: "	if m.Layout == l.Name {\n", put: "	if m.Layout == l.Name || l.Of == nil {\n",
			pkg: "consumer", test: "TestAGroupHasOneLayout$",
		},
		{
			name: "bounds-of-each-input", breaks: "the checkpoint of a unit of many partitions outgrows a value, and what was finished above it is left out",
			file: "dispatch/config.go",
			find: "	c.MaxRanges = max(1, c.MaxRanges/max(1, len(c.Inputs)))", put: "	c.MaxRanges = max(1, c.MaxRanges)",
			pkg: "dispatch", test: "TestTheInputsOfAUnitShareTheBoundsOfItsCheckpoint$",
		},
		{
			name: "latest-is-not-stored", breaks: "a crash before the first checkpoint skips records",
			file: "consumer/unit.go",
			find: "	return w.storeStart(ctx, u, at)\n",
			put:  "	return append(start, at...), nil\n",
			pkg:  ".", test: "TestLatestIsWhereTheGroupWasMadeNotWhereItIsRestarted$",
		},
		{
			name: "late-start-undoes-commits", breaks: "a start that was not answered reaches the store late, and takes the group back",
			file: "registry/protocol.go",
			find: ", {Key: put.Key, Version: after}},\n", put: "},\n",
			pkg: ".", test: "TestAStartThatArrivesLateUndoesNothing$",
		},
		{
			name: "murmur2-of-signed-bytes", breaks: "keys outside of ASCII go to other partitions than Kafka's own producers send them to",
			file: "topic/hash.go",
			find: "		h ^= uint32(key[1]) << 8\n", put: "		h ^= uint32(int32(int8(key[1]))) << 8\n",
			pkg: "topic", test: "TestHashesGiveThePublishedNumbers$",
		},
		{
			name: "namespaces-share-records", breaks: "one namespace deletes the records of another",
			file: "topic/life.go",
			find: "		namespace += \"..\"\n", put: "		namespace = \"\"\n",
			pkg: "topic", test: "TestNamespacesDoNotShareRecords$",
		},
		{
			name: "hangup-kills", breaks: "a terminal that is closed ends a consumer without a hand-over, and leaves what --exec runs behind",
			file: "internal/cli/main.go",
			find: "	if !signal.Ignored(syscall.SIGHUP) {\n", put: "	if false {\n",
			pkg: "internal/cli", test: "TestATerminalThatIsClosedEndsACommandCleanly$",
		},
		{
			name: "nohup-for-nothing", breaks: "a terminal that is closed ends what was to go on without one",
			file: "internal/cli/main.go",
			find: "	if !signal.Ignored(syscall.SIGHUP) {\n", put: "	if true {\n",
			pkg: "internal/cli", test: "TestATerminalThatIsClosedEndsACommandCleanly$",
		},
		{
			name: "quit-keeps-the-terminal", breaks: "top leaves a terminal behind that shows nothing of what is typed",
			file: "internal/cli/terminal.go",
			find: "	signal.Notify(quits, syscall.SIGQUIT)\n", put: "",
			pkg: "internal/cli", test: "TestTopGivesTheTerminalBackHoweverItEnds$",
		},
		{
			name: "drawn-for-each-key", breaks: "whoever leans on a key has top draw megabytes",
			file: "internal/cli/top.go",
			find: "						settled = time.After(settle)\n", put: "						_ = a.drawTop(snap, live, f.lag)\n",
			pkg: "internal/cli", test: "TestTopIsNotDrawnForEachKey$",
		},
		{
			name: "dumb-is-drawn-on", breaks: "a terminal that obeys nothing shows escape sequences",
			file: "internal/cli/terminal.go",
			find: "v == \"dumb\" {\n", put: "v == \"dumber\" {\n",
			pkg: "internal/cli", test: "TestADumbTerminalGetsNoSequences$",
		},
		{
			name: "commands-outlive", breaks: "what a command has started goes on with a record that another member has taken over",
			file: "internal/cli/execwatch_linux.go",
			find: "!strings.HasPrefix(mark, watchMark+\"=\") || rest == watchDone {\n", put: "!strings.HasPrefix(mark, watchMark+\"=\") || rest != watchMark {\n",
			pkg: "internal/cli", test: "TestWhatCommandsHaveStartedEndsWithAProcessThatIsKilled$",
		},
		{
			name: "group-outlives", breaks: "what dropped the mark goes on in the group of a command",
			file: "internal/cli/execwatch_linux.go",
			find: "group != spared && group > 1 {\n", put: "group == spared && group > 1 {\n",
			pkg: "internal/cli", test: "TestWhatCommandsHaveStartedEndsWithAProcessThatIsKilled$",
		},
		{
			name: "clean-end-kills", breaks: "what a command left running on purpose is killed with a consumer that ends",
			file: "internal/cli/execwatch_linux.go",
			find: "	_, _ = c.watch.pipe.WriteString(watchDone)", put: "	_, _ = c.watch.pipe.WriteString(\"\")",
			pkg: "internal/cli", test: "TestWhatACommandLeftRunningOutlivesACleanEnd$",
		},
	}
}
