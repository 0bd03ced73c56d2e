package main

// hostLifeMutants are bugs in what holds when the host fails, or another user of it is an enemy.
func hostLifeMutants() []mutant {
	return []mutant{
		{
			name: "checkpoint-outlives-records", breaks: "a checkpoint at level os is stored before its records are durable: those that come in their place are never handled",
			file: "consumer/settle.go",
			find: "		if t.Unsettled() && !slices.Contains(topics, t) {\n", put: "		if t.Unsettled() && slices.Contains(topics, t) {\n",
			pkg: ".", test: "TestACheckpointIsNotStoredBeforeItsRecordsAreDurable$",
		},
		{
			name: "end-outlives-records", breaks: "a group begins at an end that a loss of power takes, and passes over what comes there",
			file: "consumer/unit.go",
			find: "	if err := w.settle(ctx, in); err != nil {\n", put: "	if err := w.settle(ctx, nil); err != nil {\n",
			pkg: ".", test: "TestAStartAtTheEndIsNotStoredBeforeThatIsDurable$",
		},
		{
			name: "parked-in-vain", breaks: "a parked record at level os is lost behind the durable progress of its topic",
			file: "subscription/delivery/turn.go",
			find: ", Writes: d.shard.Writes(),\n", put: ", Writes: nil,\n",
			pkg: ".", test: "TestAParkedRecordIsDurableBeforeTheProgressBehindIt$",
		},
		{
			name: "told-while-it-syncs", breaks: "progress that came while a sync ran is taken for durable",
			file: "consumer/settle.go",
			find: "	s.safe = p\n", put: "	s.safe = s.asked\n",
			pkg: "consumer", test: "TestProgressWaitsForTheSyncOfItsRecords$",
		},
		{
			name: "counts-what-was-taken-back", breaks: "a unit goes on behind records that a failed sync took back, and passes over those in their place",
			file: "consumer/settle.go",
			find: "		if t.Doubt() != s.doubts[i] {\n", put: "		if t.Doubt() < s.doubts[i] {\n",
			pkg: "consumer", test: "TestAUnitThatReadWhatWasTakenBackTellsNothing$",
		},
		{
			name: "settled-without-a-sync", breaks: "what the file log calls settled goes with the power",
			file: "commitlog/filelog/settle.go",
			find: "	if !t.Unsettled() {\n", put: "	if t.Unsettled() {\n",
			pkg: "commitlog/filelog", test: "TestWhatWasSettledSurvivesALossOfPower$",
		},
		{
			name: "taken-back-unheard", breaks: "nobody hears that records which were read may have been taken back",
			file: "commitlog/filelog/settle.go",
			find: "	return t.s.page.Poison()\n", put: "	return 0 * t.s.page.Poison()\n",
			pkg: "commitlog/filelog", test: "TestRecordsThatMayHaveBeenTakenBackAreDoubted$",
		},
		{
			name: "shortage-costs-attempts", breaks: "a host without a process to spare makes dead letters of records that no command has seen",
			file: "internal/command/command.go",
			find: "		err = notBegunError{err}\n", put: "		err = errors.Join(notBegunError{err}.error)\n",
			pkg: "internal/command", test: "TestACommandThatCanNotStartIsAnOutage$",
		},
		{
			name: "long-key-is-a-shortage", breaks: "a record whose key is too long for a command holds up all others for ever",
			file: "internal/command/command.go",
			find: "!errors.Is(e.error, syscall.E2BIG)", put: "!errors.Is(e.error, syscall.EMFILE)",
			pkg: "internal/command", test: "TestACommandThatCanNotStartIsAnOutage$",
		},
		{
			name: "stranger-names-who-is-killed", breaks: "a command that became another user joins a group of ours, a shell or another service, and it is killed",
			file: "internal/command/watch_linux.go",
			find: " && ours(e.Name()) {\n", put: " && (ours(e.Name()) || group > 1) {\n",
			pkg: "internal/command", test: "TestACommandThatBecameAnotherUserTakesNoGroupAlong$",
		},
		{
			name: "waits-for-the-kernel", breaks: "a secret file that leads to /proc/kmsg keeps a daemon from ending for ever",
			file: "internal/storeurl/file.go",
			find: "	if err == nil && madeUp(f) {\n", put: "	if err != nil && madeUp(f) {\n",
			pkg: "internal/storeurl", test: "TestWhatIsNoFileIsNotWaitedFor$",
		},
		{
			name: "works-in-two-directories", breaks: "who opens a copy by hard links writes on in the files of the directory that it was made of, and damages it",
			file: "internal/vfs/os_private.go",
			find: "!info.Mode().IsRegular() || st.Nlink < 2 {\n", put: "!info.Mode().IsRegular() || st.Nlink > 0 {\n",
			pkg: ".", test: "TestACopyByHardLinksIsRefused$",
		},
		{
			name: "watch-that-was-killed", breaks: "once somebody has killed what watches over commands, they go on when their process is killed",
			file: "internal/command/watch_linux.go",
			find: "		case <-c.watch.ended: // somebody has killed it\n			_ = c.watch.pipe.Close()\n", put: "		case <-c.watch.ended: // somebody has killed it\n			return c.watch.mark, nil\n",
			pkg: "internal/command", test: "TestAWatchThatWasKilledIsReplaced$",
		},
	}
}
