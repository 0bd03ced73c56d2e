package main

// seldomMutants are bugs that show only in what happens seldom.
func seldomMutants() []mutant {
	const push, registry = "push", "registry"
	return []mutant{
		{
			name: "parked-beyond-the-rate", breaks: "a receiver gets more than its rate while there is something parked",
			file: "subscription/throttle.go",
			find: "		if s.tryPaid(t.why) {\n			t.tokens--\n", put: "		if s.tryPaid(t.why) {\n",
			pkg: "subscription", test: "TestWhatIsParkedIsWithinTheRateToo$",
		},
		{
			name: "comes-as-the-rate-is-used-up", breaks: "a shard that moves to a process whose rate is used up asks for tokens again and again",
			file: "subscription/throttle.go",
			find: "	s.setPaused(t.why, t.barred)\n", put: "",
			pkg: "subscription", test: "TestAShardThatComesWhileTheRateIsUsedUpWaitsToo$",
		},
		{
			name: "takeover-is-a-burst", breaks: "each takeover gives a receiver a tenth of a second's worth beyond its rate",
			file: "subscription/throttle.go",
			find: "	now := time.Now()\n	t.refill(now)\n	t.part = 0\n", put: "	now := time.Now()\n	t.part = 0\n",
			pkg: "subscription", test: "TestATakeoverIsNoBurst$",
		},
		{
			name: "eased-untold", breaks: "nobody sees why a subscription whose receiver refuses most is slow",
			file: "subscription/told.go",
			find: "Eased: round(s.cfg.Throttle.eased()), ", put: "",
			pkg: "subscription", test: "TestWhatAnswersBoundIsTold$",
		},
		{
			name: "answers-that-differ-are-none", breaks: "a partition of which a broker says something else each time looks like one that has nothing new",
			file: "commitlog/kafkalog/sure.go",
			find: "	if len(part.RecordBatches) == 0 {\n		return nil, fmt", put: "	if part == nil {\n		return nil, fmt",
			pkg: "commitlog/kafkalog", test: "TestAnswersThatDifferAgainAndAgainAreAnError$", server: "kafka",
		},
		{
			name: "outage-told-late", breaks: "describe tells of an outage with the next progress, which does not come in it",
			file: "subscription/told.go",
			find: "	if passed < tellEvery && (held != nil) == (t.last != nil && t.last.HeldBack != nil) {", put: "	if passed < tellEvery {",
			pkg: "subscription", test: "TestAnOutageIsToldAtOnce$",
		},
		{
			name: "endpoint-bounds-uncounted", breaks: "nobody sees what a subscription uses of the limits of its endpoint, unless it has some of its own",
			file: "subscription/told.go",
			find: "|| s.cfg.Target != nil || t", put: "|| t",
			pkg: "subscription", test: "TestAttemptsAreCountedWhereAnythingBoundsThem$",
		},
		{
			name: "lost-session-closes-the-next", breaks: "who lets go late of a lost session has the process open one more, and who shares the one hears nothing of the other",
			file: "registry/sessions.go",
			find: "		if last && x.of.open[x.ttl] == x.shared {", put: "		if last {",
			pkg: registry, test: "TestTheSessionAfterOneThatWasLostIsOneForAllToo$",
		},
		{
			name: "session-of-who-came-back", breaks: "a member that came back under another session is taken away, and its units with it",
			file: "registry/sessions.go",
			find: "err == nil && e.Session == x.ID() && inc", put: "err == nil && inc",
			pkg: registry, test: "TestAnEntryUnderAnotherSessionIsNoneThatCameBack$",
		},
		{
			name: "event-of-an-empty-type", breaks: "a record with an empty type is an event that its receiver refuses, and a dead letter",
			file: "push/cloudevent.go",
			find: "r.Name == \"ce_type\" && value != \"\"", put: "r.Name == \"ce_type\"",
			pkg: push, test: "TestAnEventHasATypeWhateverItsRecordSays$",
		},
		{
			name: "event-attribute-of-any-length", breaks: "a key of many signs makes a header that no server takes, and its records dead letters",
			file: "push/cloudevent.go",
			find: "	if b.Len() > longestKey {\n		return \"\"\n	}\n", put: "",
			pkg: push, test: "TestNoAttributeIsLongerThanAKeyMayBe$",
		},
		{
			name: "share-of-what-can-be-read", breaks: "a definition that can't be read for a moment has each process take more of the endpoint than it may",
			file: "push/share.go",
			find: "			if !s.blind && ctx.Err() == nil {", put: "			if s.count(all); !s.blind && ctx.Err() == nil {",
			pkg: push, test: "TestADefinitionThatCanNotBeReadGivesNobodyItsPart$",
		},
		{
			name: "forged-fences-told-to-lookers", breaks: "what a stranger writes to a journal fills the memory of who looks at it",
			file: "subscription/core/believe.go",
			find: " && s.cfg.Tenure != (Tenure{}) {", put: " {",
			pkg: "subscription/core", test: "TestForgedFencesAreToldToAnOwnerAndMoreAndMoreSeldom$",
		},
		{
			name: "forged-fences-fill-the-log", breaks: "who writes fences to a journal writes as much to the log of its owner",
			file: "subscription/core/believe.go",
			find: "bits.OnesCount(uint(s.forged)) == 1", put: "bits.OnesCount(uint(s.forged)) >= 1",
			pkg: "subscription/core", test: "TestForgedFencesAreToldToAnOwnerAndMoreAndMoreSeldom$",
		},
		{
			name: "full-batch-waits", breaks: "a batch that has all it may have waits for one more",
			file: "consumer/batches.go",
			find: "if b.gathering && len(b.waiting) >= b.Size {", put: "if b.gathering && len(b.waiting) > b.Size {",
			pkg: "consumer", test: "TestABatchThatGetsFullIsCalledAtOnce$",
		},
		{
			name: "place-at-the-source-stays", breaks: "what a consumer that was started amid a cut-over stores is taken for a place at the target",
			file: "mirror/carried.go",
			find: "			c.Applied = false\n", put: "",
			pkg: "mirror", test: "TestACutOverSeesConsumersThatAreStartedMeanwhile$",
		},
		{
			name: "discards-more-than-asked", breaks: "who agrees to discard the dead letters of a key discards them all",
			file: "internal/cli/deadletters.go",
			find: "			o.DryRun = false\n			n, err", put: "			o = &ringfence.DeadLetterOptions{}\n			n, err",
			pkg: "internal/cli", test: "TestDiscardAsksOnATerminal$",
		},
		{
			name: "share-needs-a-logger", breaks: "a program that gives no logger ends when a definition can't be read",
			file: "push/share.go",
			find: "	if log == nil {\n", put: "	if rf == nil {\n",
			pkg: "push", test: "TestAShareWithoutALoggerOutlivesDefinitionsThatCanNotBeRead$",
		},
		{
			name: "damaged-group-without-a-remedy", breaks: "who meets a group that can't be read is not told how to get rid of it",
			file: "registry/decode.go",
			find: "ok && errors.Is(err, fault.Corrupt) {\n", put: "ok && errors.Is(err, ErrFenced) {\n",
			pkg: ".", test: "TestAGroupThatCannotBeReadIsDeletedByForce$",
		},
		{
			name: "discards-nothing-and-asks", breaks: "a script on a terminal that has nothing to discard waits for somebody, and fails",
			file: "internal/cli/deadletters.go",
			find: "if n > 0 && !a.confirm", put: "if !a.confirm",
			pkg: "internal/cli", test: "TestDiscardAsksOnATerminal$",
		},
	}
}
