package main

// growthMutants are bugs of topics that grow or move, and of rings.
func growthMutants() []mutant {
	return append(livesMutants(), []mutant{
		{
			name: "switch-without-the-seal", breaks: "a slow producer writes a key behind records of it in the next storage topic",
			file: "topic/grow.go",
			find: "	ends, err := st.Seal(ctx)\n",
			put: "	ends, err := make([]int64, doc.Storage[doc.Produce].Partitions), error(nil)\n" +
				"	for p := range ends {\n		b, _ := st.Bounds(ctx, p)\n		ends[p] = b.Next\n	}\n",
			pkg: "topic", test: "TestAnInterruptedSwitchIsFinishedByTheNextProducer$",
		},
		{
			name: "topic-without-a-name", breaks: "the error about a definition that a stranger replaced names no topic",
			file: "topic/document.go",
			find: "make it anew: %w\", strings.TrimPrefix(key, prefix), d.Format,", put: "make it anew: %w\", d.Name, d.Format,",
			pkg: "topic", test: "TestDefinitionsOfANewerFormatAreRefused$",
		},
		{
			name: "damaged-assignment-stops-a-group", breaks: "junk in the place of a group's assignment keeps all others from what a member leaves behind",
			file: "registry/group.go",
			find: "			if st.AssignmentDamage = decode(e, st.Assignment); st.AssignmentDamage != nil {\n", put: "			if err = decode(e, st.Assignment); err != nil {\n",
			pkg: "group", test: "TestAnAssignmentThatCannotBeReadIsReplaced$",
		},
		{
			name: "damaged-assignment-is-silent", breaks: "nobody is told that an assignment was replaced because it could not be read",
			file: "group/core/plan.go",
			find: "	case s.view.AssignmentDamage != nil:\n", put: "	case s.view.AssignmentDamage != nil && len(why) > 1<<20:\n",
			pkg: "group", test: "TestAnAssignmentThatCannotBeReadIsReplaced$",
		},
		{
			name: "acknowledgement-of-no-place", breaks: "a record is acknowledged at a place before the first, because one bit of Kafka's answer was wrong",
			file: "commitlog/kafkalog/sender.go",
			find: "			if part.BaseOffset < 0 {\n", put: "			if part.BaseOffset < -1<<63+7 {\n",
			pkg: "commitlog/kafkalog", test: "TestAnAcknowledgementOfNoPlaceIsNone$",
		},
		{
			name: "deposed-leader-has-nothing", breaks: "a batch that a deposed leader of Kafka has stored is called absent, and another lost in its place",
			file: "commitlog/kafkalog/sender.go",
			find: "	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.NotEnoughReplicas,", put: "	kerr.MessageTooLarge, kerr.NotLeaderForPartition, kerr.NotEnoughReplicas,",
			pkg: "commitlog/kafkalog", test: "TestABatchOfADeposedLeaderThatIsGivenUpMayBeStored$", server: "kafka",
		},
		{
			name: "stale-retention-stays", breaks: "who was stopped while the retention changed puts the one before in force again",
			file: "topic/retention.go",
			find: "		case doc.differs(given):\n", put: "		case doc.differs(given) && last < 0:\n",
			pkg: "topic", test: "TestTheLaterOfTwoRetentionsIsInForceEverywhere$",
		},
		{
			name: "half-altered-for-good", breaks: "a change of the retention that a crash cut off reaches some storage topics only",
			file: "topic/grow.go",
			find: "	if err == nil && doc.Altering {\n", put: "	if err == nil && doc.Altering && doc.Switching {\n",
			pkg: "topic", test: "TestAChangeOfTheRetentionThatWasCutOffIsFinished$",
		},
		{
			name: "refused-retention-stays", breaks: "a retention that the log refuses leaves the topic half altered for ever",
			file: "topic/retention.go",
			find: "			if refuses(ctx, err) {\n", put: "			if refuses(ctx, err) && last < 0 {\n",
			pkg: "topic", test: "TestARetentionThatTheLogRefusesLeadsBackToTheOneBefore$",
		},
		{
			name: "refused-way-back", breaks: "a log that refuses every change of a retention keeps the topic half altered, though it has what it should",
			file: "topic/retention.go",
			find: "refuses(ctx, err) && c.has(ctx, doc, i)", put: "refuses(ctx, err) && i < 0",
			pkg: "topic", test: "TestARetentionThatTheLogRefusesLeadsBackToTheOneBefore$",
		},
		{
			name: "estimate-by-reads", breaks: "a dry run of topic alter reads all over a log that knows its size, half a minute on Pulsar",
			file: "topic/extent.go",
			find: "	if ok || err != nil {\n", put: "	if ok && err != nil {\n",
			pkg: "topic", test: "TestALogThatKnowsItsSizeIsNotRead$",
		},
		{
			name: "early-does-not-wait", breaks: "a message whose storage topic takes over just now is refused, or overtakes what is carried there",
			file: "topic/idempotent.go",
			find: "	return m.idempotent() && m.home > g.storage &&", put: "	return m.idempotent() && m.home < 0 &&",
			pkg: "topic", test: "TestAProducerOfTheNextStorageTopicWaitsForWhatIsUnderWay$",
		},
		{
			name: "definition-under-another-name", breaks: "a definition that stands under another topic's name is used, and overwrites that topic's",
			file: "topic/document.go",
			find: "	if prefix+d.Name != key {", put: "	if prefix+d.Name == \"\" {",
			pkg: "topic", test: "TestADefinitionUnderAnotherNameIsNamedAndSkipped$",
		},
		{
			name: "switch-resumed-twice", breaks: "a follower that finishes a switch does the next one as well, which nobody asked for",
			file: "topic/grow.go",
			find: "	if err := c.finishSwitch(ctx, doc, version); !errors.Is(err, fault.Conflict) {\n",
			put:  "	if _, err := c.Switch(ctx, name); version != \"\" && !errors.Is(err, fault.Conflict) {\n",
			pkg:  "topic", test: "TestResumingSwitchesNoFurtherThanAsked$",
		},
		{
			name: "gap-of-what-the-seal-refused", breaks: "what an idempotent producer sends behind the first that a switch refused is called a mistake",
			file: "topic/idempotent.go",
			find: "past && errors.Is(err, fault.Invalid)", put: "past && errors.Is(err, fault.Fenced)",
			pkg: "topic", test: "TestASwitchRefusesTheRestOfAWindow$",
		},
		{
			name: "repeated-to-the-next", breaks: "an append that is repeated after a switch is stored twice",
			file: "topic/idempotent.go",
			find: "	at, err := m.atHome(v.doc)\n", put: "	m.home = m.g.storage\n	at, err := m.atHome(v.doc)\n",
			pkg: "topic", test: "TestAMessageSentAgainAfterASwitchIsStoredOnce$", server: "kafka",
		},
		{
			name: "forgotten-and-sealed-is-absent", breaks: "a sealed partition of Kafka calls absent what the broker only forgot, and it is stored twice",
			file: "commitlog/kafkalog/reconcile.go",
			find: "		} else if closed {\n", put: "		} else if closed && id.next > 0 {\n",
			pkg: "commitlog/kafkalog", test: "TestASealedPartitionIsReadForWhatTheBrokerForgot$", server: "kafka",
		},
		{
			name: "hold-of-another-storage-topic", breaks: "retention takes what a mirror has not copied yet",
			file: "mirror/mirror.go",
			find: "m.hold(ctx, copied, from, to, storage, once)", put: "m.hold(ctx, copied, from, to, 1-storage, once)",
			pkg: "mirror", test: "TestEachStorageTopicIsHeldByItsOwnProgress$",
		},
		{
			name: "target-without-a-hold", breaks: "retention at the target drops what was copied there before any group could need it",
			file: "mirror/hold.go",
			find: "	return to.Hold(ctx, incomingName(m.c.From.Name), offsets)\n", put: "	return nil\n",
			pkg: "mirror", test: "TestTheTargetKeepsWhatItsGroupsHaveNotProcessed$",
		},
		{
			name: "target-held-at-the-end", breaks: "retention at the target drops what the source keeps for its groups",
			file: "mirror/hold.go",
			find: "		if a.Source <= first {\n", put: "		if a.Source <= first || true {\n",
			pkg: "mirror", test: "TestTheTargetIsHeldFromWhereTheSourceBegins$",
		},
		{
			name: "one-try-at-a-hold", breaks: "an error at the first look leaves the source unheld while it is copied",
			file: "mirror/hold.go",
			find: "		case err != nil:\n			pause = retryPause\n		case once:\n", put: "		case err != nil && !once:\n			pause = retryPause\n		case once:\n",
			pkg: "mirror", test: "TestAHoldOfAMirrorThatEndsIsTriedAgain$",
		},
		{
			name: "one-hold-for-both-ways", breaks: "of two mirrors at one log, one ends the hold of the other",
			file: "mirror/hold.go",
			find: "return \"mirror-from:\" + source", put: "return \"mirror:\" + source",
			pkg: "mirror", test: "TestHoldsOfMirrorsHaveNamesOfTheirOwn$",
		},
		{
			name: "position-below-the-first-record", breaks: "a cut-over skips what the group needs and the log has dropped, without a word",
			file: "mirror/translate.go",
			find: "	if p.Next < t.first {\n", put: "	if p.Next < 0 {\n",
			pkg: "mirror", test: "TestAPositionBelowTheFirstRecordIsRefused$",
		},
		{
			name: "storage-topics-without-a-barrier", breaks: "a key's records of the next storage topic are processed before its earlier ones",
			file: "group/core/layout.go",
			find: "return len(s.layout) == 0 || s.gates[n] }", put: "return len(s.layout) == 0 || len(s.gates) > n }",
			pkg: "group/sim", test: "TestSimulation$",
		},
		{
			name: "mirror-resumes-one-too-early", breaks: "a mirror that is started again copies a record twice",
			file: "mirror/copy.go",
			find: "	if err := c.finishWindow(ctx); err != nil {\n		return err\n	}\n", put: "	if err := c.finishWindow(ctx); err != nil {\n		return err\n	}\n	c.s.From = max(b.First, c.s.From-1)\n",
			pkg: "mirror", test: "TestCrashesAndLostAnswersLeaveOneCopyOfEachRecord$",
		},
		{
			name: "mirror-appends-before-it-notes", breaks: "a mirror that dies while it appends copies those records twice",
			file: "mirror/copy.go",
			find: "	if err := c.settle(ctx); err != nil {\n		return err\n	}\n	return c.send(ctx, batches)\n", put: "	return c.send(ctx, batches)\n",
			pkg: "mirror", test: "TestCrashesAndLostAnswersLeaveOneCopyOfEachRecord$",
		},
		{
			name: "ring-hands-over-before-the-drain", breaks: "a key has a new owner while the old one still works under its yes",
			file: "ring/table.go",
			find: "	case <-u.Draining():\n	}\n", put: "	case <-u.Draining():\n		return nil\n	}\n",
			pkg: "ring", test: "TestTheDrainOfALeave$",
		},
	}...)
}
