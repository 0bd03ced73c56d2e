package main

// lifeMutants are bugs by which one life of a topic is taken for another.
func lifeMutants() []mutant {
	const pkg, crash = "commitlog/filelog", "commitlog/filelog/crashtest"
	return []mutant{
		{
			name: "deletion-is-the-move", breaks: "a topic whose deletion was acknowledged is there again after a power loss",
			file: "commitlog/filelog/delete.go",
			find: "	err := dir.SyncDir(\".\")\n	p.MarkDeleted", put: "	var err error\n	p.MarkDeleted",
			pkg: pkg, test: "TestADeletionThatFailsHalfWay$",
		},
		{
			name: "announced-is-deleted", breaks: "a deletion that did not happen takes the topic from those who have it open",
			file: "commitlog/filelog/store.go",
			find: "	if gone, err := topicGone(s.fs); err != nil || !gone {\n", put: "	if _, err := topicGone(s.fs); err != nil {\n",
			pkg: pkg, test: "TestTheNameDecidesWhatADeadDeleterDid$",
		},
		{
			name: "deleted-only-when-told", breaks: "a topic whose deleter died goes on for those who have it open, without a name",
			file: "commitlog/filelog/store.go",
			find: "	if gone, err := topicGone(s.fs); err != nil || !gone {\n", put: "	if gone, err := topicGone(s.fs); err != nil || gone || !gone {\n",
			pkg: crash, test: "TestAProcessKilledInEveryLifeOfAName$",
		},
		{
			name: "files-removed-under-the-lock", breaks: "nobody can make a topic while the files of another are removed",
			file: "commitlog/filelog/delete.go",
			find: "	unlock()\n	return errors.Join(err, l.sweep(ctx))\n", put: "	defer unlock()\n	return errors.Join(err, l.sweep(ctx))\n",
			pkg: pkg, test: "TestNobodyWaitsForFilesToBeRemoved$",
		},
		{
			name: "one-bad-topic-hides-all", breaks: "a damaged topic file makes all topics unlistable",
			file: "commitlog/filelog/topics.go",
			find: "		default:\n			l.c.Logger.Error(", put: "		default:\n			return nil, err\n			l.c.Logger.Error(",
			pkg: pkg, test: "TestADamagedTopicFileCostsOnlyItself$",
		},
		{
			name: "name-of-a-dead-maker", breaks: "a topic whose maker was killed is gone after a power loss, with what was acknowledged in it",
			file: "commitlog/filelog/open.go",
			find: "		if err := s.above.SyncDir(topicsDir); err != nil {", put: "		if err := error(nil); err != nil {",
			pkg: pkg, test: "TestATopicWhoseMakerWasKilledStays$",
		},
		{
			name: "trim-forgotten-at-an-error", breaks: "a trim file that can't be read for a moment is replaced by one without the trims",
			file: "commitlog/filelog/evidence.go",
			find: "		return nil, explain(\"read \"+s.fs.Path(\"trim\"), err)", put: "		return none, nil",
			pkg: pkg, test: "TestATrimThatCannotBeReadIsKept$",
		},
		{
			name: "old-retention-goes-on", breaks: "another process drops records by a retention that was taken back",
			file: "commitlog/filelog/retain.go",
			find: "		s.followRetention() // who changes it has this lock\n", put: "",
			pkg: pkg, test: "TestARetentionThatWasTakenBackDropsNothingInOtherProcesses$",
		},
		{
			name: "damaged-retention-drops", breaks: "a damaged file drops records that were to be kept",
			file: "commitlog/filelog/alter.go",
			find: "		return c.WithRetentionOf(driver.TopicConfig{}), ", put: "		return c, ",
			pkg: pkg, test: "TestADamagedRetentionKeepsEverythingUntilItIsSetAnew$",
		},
		{
			name: "gap-before-a-seal", breaks: "of a producer's appends to a sealed topic all but the first are called a mistake",
			file: "commitlog/filelog/writer.go",
			find: "if err != nil && !(w.sealed && errors.Is(err, fault.Invalid)) {", put: "if err != nil {",
			pkg: pkg, test: "TestASealRefusesAllThatAProducerSends$",
		},
		{
			name: "oldest-segment-skipped", breaks: "who reads from the beginning skips a lost oldest segment in silence",
			file: "commitlog/filelog/closed.go",
			find: "		if h.Number > low { ", put: "		if h.Number > low && low == 0 { ",
			pkg: pkg, test: "TestTheOldestSegmentIsLost$",
		},
		{
			name: "nothing-is-sound", breaks: "log check calls a topic sound that has lost its only segment",
			file: "commitlog/filelog/inspect.go",
			find: "	if len(in.report.Segments)+len(in.report.Damage) == 0 {", put: "	if len(in.report.Segments)+len(in.report.Damage) < 0 {",
			pkg: pkg, test: "TestInspectSeesThatNoSegmentIsThere$",
		},
		{
			name: "deleted-in-silence", breaks: "who waits for records of a topic that is deleted sleeps on",
			file: pkg + "/internal/page/page.go",
			find: "	p.store(wordDeleted, uint64(Deleted))\n	p.Shout()\n", put: "	p.store(wordDeleted, uint64(Deleted))\n",
			pkg: pkg + "/internal/page", test: "TestWhoWaitsHearsThatTheTopicWasDeleted$",
		},
		{
			name: "age-by-a-clock-that-went-back", breaks: "retention by age believes a monotonic clock that says less than before, or a time of day in the future",
			file: pkg + "/age.go",
			find: "m.up >= then.up\n", put: "true\n",
			pkg: pkg, test: "TestHowLongAgoAMomentWasIsKnownOnlyByAClockThatCanBeTrusted$",
		},
		{
			name: "dropped-while-looked-at", breaks: "log check fails or reports damage where a segment is dropped meanwhile",
			file: "commitlog/filelog/inspect.go",
			find: "	if err == nil && oldest <= n {", put: "	if err == nil && (oldest <= n || n > 0) {",
			pkg: pkg, test: "TestInspectGoesOnWhileSegmentsAreDropped$",
		},
		{
			name: "page-of-the-dead", breaks: "a control page from before an error of the file system is believed, and acknowledged records are overwritten",
			file: "commitlog/filelog/open.go",
			find: "	if alone {\n", put: "	if alone && s.page.Hint() == 0 {\n",
			pkg: crash, test: "TestPowerLossInEveryLifeOfAName$",
		},
		{
			name: "lock-for-a-life", breaks: "who recovers and dies makes the next one believe a page that nobody recovered",
			file: "commitlog/filelog/open.go",
			find: "s.fs.OpenFile(\"open.lock\", ", put: "s.fs.OpenFile(fmt.Sprintf(\"%p\", s), ",
			pkg: crash, test: "TestARecoveryThatDiesIsBegunAgain$",
		},
		{
			name: "failed-sync-forgotten", breaks: "what a sync dropped from the disk is shown as durable, once the process that knew is dead",
			file: "commitlog/filelog/recover.go",
			find: "	return g.rewrite(start, end)\n}", put: "	_ = start\n	return g.rewrite(end, end)\n}",
			pkg: crash, test: "TestAFailedSyncThatNobodyRemembers$",
		},
		{
			name: "open-and-not-said", breaks: "a topic is recovered under those who have it open",
			file: "commitlog/filelog/open.go",
			find: "	if err := s.aliveLock.Lock(false); err != nil {\n", put: "	if err := s.aliveLock.Unlock(); err != nil {\n",
			pkg: pkg, test: "TestWhoOpensATopicInUseRecoversNothing$",
		},
		{
			name: "leftovers-stay", breaks: "what a crash left of deleted topics fills the disk for ever",
			file: "commitlog/filelog/filelog.go",
			find: "	l.sweepAtOpen(ctx)\n", put: "",
			pkg: pkg, test: "TestLeftoversOfTopicsAreRemoved$",
		},
	}
}
