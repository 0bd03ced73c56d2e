package main

// waitMutants are bugs of waits that several share.
func waitMutants() []mutant {
	const log, page = "commitlog/filelog", "commitlog/filelog/internal/page"
	return []mutant{
		{
			name: "wait-that-stays-counted", breaks: "a topic is watched for ever, for a wait that was called off",
			file: log + "/wait.go",
			find: "		v.waiting.Add(-1)\n", put: "",
			pkg: log, test: "TestAWaitThatIsCalledOffIsTakenBackAndNoOther$",
		},
		{
			name: "wait-called-off-for-others", breaks: "who waits for a record hears nothing, as another wait was called off",
			file: log + "/wait.go",
			find: "slices.Delete(v.waiters[partition], i, i+1)", put: "slices.Delete(v.waiters[partition], i, len(v.waiters[partition]))",
			pkg: log, test: "TestAWaitThatIsCalledOffIsTakenBackAndNoOther$",
		},
		{
			name: "one-sleeper-not-rung-for", breaks: "the only other process that waits reads records half a second late",
			file: log + "/wait.go",
			find: "w.s.page.Sleepers() > w.sleeping", put: "w.s.page.Sleepers() > w.sleeping+1",
			pkg: log, test: "TestEverySleeperOfAnotherProcessIsRungFor$",
		},
		{
			name: "nap-not-taken-back", breaks: "every append of a topic wakes others, for somebody who slept there once",
			file: log + "/wait.go",
			find: "	w.count(^uint32(0))\n", put: "",
			pkg: log, test: "TestANapIsCountedAndTakenBack$",
		},
		{
			name: "record-as-somebody-registers", breaks: "a record that comes as somebody begins to wait for it is read half a second late",
			file: log + "/wait.go",
			find: "	if s.visible() > s.view.at.Load() {\n		s.view.news()\n	}\n", put: "",
			pkg: log, test: "TestWhoRegistersAsARecordComesIsToldOfIt$",
		},
		{
			name: "wait-in-a-deleted-topic", breaks: "who waits for records of a topic that is deleted does not hear of that",
			file: log + "/wait.go",
			find: "		if s.gone() {\n			return notFound(s.name)\n		}\n", put: "",
			pkg: log, test: "TestWhoWaitsHearsThatTheTopicIsDeleted$",
		},
		{
			name: "long-nap-over-the-unsynced", breaks: "what a writer wrote that died before its sync is read late, or never, in a topic that was quiet",
			file: log + "/wait.go",
			find: "w.s.view.waiting.Load() == 0 || forsaken()", put: "w.s.view.waiting.Load() == 0",
			pkg: log, test: "TestALongNapEndsWhenNobodyWaitsAndForWhatNobodySyncs$",
		},
		{
			name: "long-nap-for-nobody", breaks: "a quiet topic is slept on for ever though nobody waits any more",
			file: log + "/wait.go",
			find: "w.s.view.waiting.Load() == 0 || forsaken()", put: "forsaken()",
			pkg: log, test: "TestALongNapEndsWhenNobodyWaitsAndForWhatNobodySyncs$",
		},
		{
			name: "watcher-not-woken-at-the-end", breaks: "the end of a topic takes half a second",
			file: log + "/wait.go",
			find: "w.s.page.Shout() }", put: "w.s.page.Chime() }",
			pkg: log, test: "TestEverySleeperOfAnotherProcessIsRungFor$",
		},
		{
			name: "idlers-beyond-the-kernel", breaks: "with 128 quiet topics each has a thread that wakes up twice a second",
			file: page + "/idle.go",
			find: "const mostInRow = mostWords - 1", put: "const mostInRow = mostWords",
			pkg: page, test: "TestNoRowHasMoreThanAThreadCanSleepOn$",
		},
		{
			name: "idlers-try-again", breaks: "on a kernel that can not sleep on many words each quiet topic takes a processor",
			file: page + "/idle.go",
			find: "			s.unable.Store(true)\n", put: "			_ = able\n",
			pkg: page, test: "TestARowThatCanNotSleepLetsAllGo$",
		},
		{
			name: "idlers-kept-awake", breaks: "on a kernel that can not sleep on many words a processor does nothing else than try",
			file: page + "/idle.go",
			find: "!able || w.page", put: "w.page",
			pkg: page, test: "TestARowThatCanNotSleepLetsAllGo$",
		},
		{
			name: "idlers-of-another-row-forgotten", breaks: "one more thread is begun for each that ends out of its turn",
			file: page + "/idle.go",
			find: "		if s.rows[i] == r {", put: "		if s.rows[i] != nil {",
			pkg: page, test: "TestARowThatEndsTakesNoOtherAlong$",
		},
	}
}
