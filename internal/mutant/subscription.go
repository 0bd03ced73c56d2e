package main

// subscriptionMutants are bugs of what is parked and of dead letters.
func subscriptionMutants() []mutant {
	const sim, simulation = "subscription/sim", "TestSimulation$"
	const dispatch = "dispatch"
	return []mutant{
		{
			name: "held-attempts-forgotten", breaks: "a crash forgets how often a record that is held has failed",
			file: "dispatch/progress.go",
			find: "				at.Failing = in.tracker.failed(registry.MaxFailing)\n", put: "				at.Failing = nil\n",
			pkg: dispatch, test: "TestAHeldRecordGoesOnFailingWhereAnotherEngineLeftIt$",
		},
		{
			name: "failures-alone-not-stored", breaks: "attempts at a held record are stored only when the progress moves too",
			file: "registry/group.go",
			find: " && slices.Equal(x.Failing, y.Failing)", put: "",
			pkg: "registry", test: "TestPositionsThatDifferAreNotTheSame$",
		},
		{
			name: "attempt-tells-nobody", breaks: "a failed attempt alone makes nobody store a checkpoint",
			file: "dispatch/settle.go",
			find: "			e.moved() // an heir has to know\n", put: "			_ = 0\n",
			pkg: dispatch, test: "TestAHeldRecordGoesOnFailingWhereAnotherEngineLeftIt$",
		},
		{
			name: "stored-time-believed", breaks: "a clock that was ahead makes a held record wait for ever",
			file: "dispatch/recall.go",
			find: "		due = latest\n", put: "		due = time.UnixMilli(f.Due)\n",
			pkg: dispatch, test: "TestAStoredTimeIsBoundByItsPause$",
		},
		{
			name: "held-follower-hurried", breaks: "a record that waits for its next attempt is tried at once behind another of its key",
			file: "dispatch/schedule.go",
			find: " && n.behind.fail == nil", put: "",
			pkg: dispatch, test: "TestAHeldRecordIsNotClaimedWithTheOneBeforeIt$",
		},
		{
			name: "parked-without-its-attempts", breaks: "a record that is parked begins to count its attempts anew",
			file: "subscription/core/pump.go",
			find: "		Attempts: h.Attempts, Due: h.Due,", put: "		Attempts: min(h.Attempts, 1), Due: h.Due,",
			pkg: sim, test: simulation,
		},
		{
			name: "parked-at-the-append", breaks: "a main record is finished before anybody knows that its copy counts",
			file: "subscription/core/pump.go",
			find: "	s.push(entry{Entry: Entry{Record: r, Payload: Payload{From: InMain}}, lane: l, main: true})\n",
			put:  "	s.push(entry{Entry: Entry{Record: r, Payload: Payload{From: InMain}}, lane: l, main: true})\n	s.emit(Settle{h.Origin})\n",
			pkg:  sim, test: simulation,
		},
		{
			name: "late-twin-counted", breaks: "an append that lands a second time brings a finished record to life again",
			file: "subscription/core/state.go",
			find: "	case r.By == s.level && r.Seq > s.seq:\n", put: "	case r.By == s.level:\n",
			pkg: sim, test: simulation,
		},
		{
			name: "void-record-counted", breaks: "what a stale owner appends changes what its heir knows",
			file: "subscription/core/state.go",
			find: "	case r.By == s.level && r.Seq > s.seq:\n", put: "	case r.By != s.level || r.Seq > s.seq:\n",
			pkg: sim, test: simulation,
		},
		{
			name: "equal-fence-counted", breaks: "two starts of one epoch and run write in turns, and both count",
			file: "subscription/core/record.go",
			find: "t.Epoch == u.Epoch && t.Run > u.Run", put: "t.Epoch == u.Epoch && t.Run >= u.Run",
			pkg: "subscription/core", test: "TestTwoStartsOfOneEpochAndRunDoNotBothCount$",
		},
		{
			name: "journal-begins-behind-its-fence", breaks: "an heir does not know which records count, and forgets what is parked",
			file: "subscription/core/from.go",
			find: "	return s.fences[0]\n", put: "	return first\n",
			pkg: sim, test: simulation,
		},
		{
			name: "trimmed-beyond-what-is-stored", breaks: "the journal loses what the stored checkpoint still needs",
			file: "subscription/core/from.go",
			find: "	return s.fences[0]\n", put: "	s.emit(Trim{Before: s.fences[0]})\n	return s.fences[0]\n",
			pkg: sim, test: simulation,
		},
		{
			name: "finished-marks-not-kept", breaks: "a record that was parked and done is delivered again after a crash",
			file: "subscription/core/from.go",
			find: "			return !s.below(m.Origin)\n", put: "			return false\n",
			pkg: sim, test: simulation,
		},
		{
			name: "unparked-before-its-done-is-read", breaks: "later records of a key are delivered while nobody knows yet that the parked one is finished",
			file: "subscription/core/pump.go",
			find: "		r = Record{Kind: Done, At: o.Now, ID: it.ID}\n", put: "		r = Record{Kind: Done, At: o.Now, ID: it.ID}\n		it.lane.remove(it)\n",
			pkg: sim, test: simulation,
		},
		{
			name: "parked-without-a-partition", breaks: "a parked record makes those of its key in other partitions look finished",
			file: "subscription/core/lane.go",
			find: "m.Partition == o.Partition && o.Offset <= m.Offset", put: "o.Offset <= m.Offset",
			pkg: sim, test: simulation,
		},
		{
			name: "follower-delivered", breaks: "a record is delivered before an earlier one of its key that is parked",
			file: "subscription/core/pump.go",
			find: "	case l.open():\n", put: "	case l.appending > 0:\n",
			pkg: sim, test: simulation,
		},
		{
			name: "blocked-key-goes-on", breaks: "a dead letter does not hold back its key",
			file: "subscription/core/lane.go",
			find: "len(l.queue) == 0 || l.queue[0].dead ||", put: "len(l.queue) == 0 ||",
			pkg: sim, test: simulation,
		},
		{
			name: "parked-again-after-a-crash", breaks: "a record that a crash puts before the checkpoint is parked a second time",
			file: "subscription/core/pump.go",
			find: "	case l.known(o):\n", put: "	case l.known(o) && l.open():\n",
			pkg: sim, test: simulation,
		},
		{
			name: "dead-mark-before-its-copy", breaks: "a dead letter has no payload",
			file: "subscription/core/pump.go",
			find: "		s.emit(Copy{Record: r, Payload: Payload{From: InMain}})\n", put: "		s.Copied(Copy{Record: r, Payload: Payload{From: InMain}}, 0)\n",
			pkg: sim, test: simulation,
		},
		{
			name: "redriven-beside-a-delivery", breaks: "a redriven record is delivered while a later one of its key is",
			file: "subscription/core/lane.go",
			find: "	if l.busy != nil || len(l.direct) > 0 ||", put: "	if l.busy != nil ||",
			pkg: sim, test: simulation,
		},
		{
			name: "every-record-at-once", breaks: "the shard forgets that a key is parked, and delivers what is behind",
			file: "subscription/shard.go",
			find: "	s.quiet.Store(s.st.Quiet())\n", put: "	s.quiet.Store(s.st.Live())\n",
			pkg: ".", test: "TestAPoisonRecordBlocksItsKeyUntilItIsRedriven$",
		},
		{
			name: "group-of-a-subscription-moved", breaks: "a seek skips or repeats what a subscription has parked",
			file: "subscribeguard.go",
			find: "		if s.Group() != group {\n", put: "		if s.Name != group {\n",
			pkg: ".", test: "TestASubscriptionsGroupAndTopicsAreNotTouchedUnderIt$",
		},
		{
			name: "first-header-stripped", breaks: "a record that was a dead letter once loses a header, or is taken for another",
			file: "subscription/parked.go",
			find: "	for i := len(rec.Headers) - 1; i >= 0; i-- {\n", put: "	for i := range rec.Headers {\n",
			pkg: "subscription", test: "TestAParkedRecordKeepsTheHeadersThatItHad$",
		},
		{
			name: "permanent-tried-again", breaks: "a record that can never succeed is tried until its attempts are used up",
			file: "dispatch/hold.go",
			find: "	case IsPermanent(f.err):\n", put: "	case IsPermanent(f.err) && f.attempts > 1:\n",
			pkg: dispatch, test: "TestAFailingRecordIsGivenAwayForOneReason$",
		},
		{
			name: "held-at-the-bound", breaks: "one failing key stops its partition once enough waits behind it",
			file: "dispatch/hold.go",
			find: "e.sched.unfinished > e.cfg.MaxInFlight/2 &&", put: "e.sched.unfinished > e.cfg.MaxInFlight &&",
			pkg: dispatch, test: "TestAFailingRecordIsGivenAwayForOneReason$",
		},
		{
			name: "held-at-the-end", breaks: "a failing record keeps a sealed storage topic unfinished, and the next one from starting",
			file: "dispatch/intake.go",
			find: "		e.finishInput(in, time.Now())\n", put: "		_ = e.finishInput\n",
			pkg: dispatch, test: "TestAFailingRecordIsGivenAwayForOneReason$",
		},
		{
			name: "journal-place-forgotten", breaks: "each heir reads a subscription's journal from its beginning",
			file: "group/run.go",
			find: "registry.Checkpoint{Positions: p.Positions, From: p.From}", put: "registry.Checkpoint{Positions: p.Positions}",
			pkg: ".", test: "TestTheJournalIsNotReadFromItsBeginningForEver$", limit: "20s",
		},
		{
			name: "quiet-unit-keeps-its-journal", breaks: "what a shard finishes while its topic is at rest stays in the journal",
			file: "consumer/progress.go",
			find: "	if from := p.journal(at); from != p.last.From {\n", put: "	if from := p.journal(at); from < p.last.From {\n",
			pkg: "consumer", test: "TestAQuietUnitTellsWhereItsJournalIsNeededFrom$",
		},
		{
			name: "any-epoch-in-a-journal", breaks: "a damaged journal makes a unit be claimed in an epoch that no registry reads",
			file: "subscription/core/codec.go",
			find: "	if r.By.Epoch < 0 || r.By.Epoch > MaxEpoch {\n", put: "	if r.By.Epoch < 0 {\n",
			pkg: "subscription/core", test: "TestAnEpochInAJournalIsOneOfARegistry$",
		},
		{
			name: "journal-never-tidied", breaks: "one dead letter keeps all of the journal that was written after it",
			file: "subscription/core/from.go",
			find: "	if s.tidyTo > from {\n", put: "	if s.tidyTo > from && limit < 0 {\n",
			pkg: ".", test: "TestTheJournalDoesNotGrowForEver$", limit: "30s",
		},
		{
			name: "journal-never-trimmed", breaks: "a journal keeps all that was ever parked",
			file: "subscription/trim.go",
			find: "	if from <= was {\n", put: "	if from >= was {\n",
			pkg: ".", test: "TestTheJournalDoesNotGrowForEver$", limit: "30s",
		},
		{
			name: "claimed-below-the-fence", breaks: "a shard whose registry went back is behind its own journal for ever",
			file: "group/core/progress.go",
			find: "ev.Above >= u.grant.Epoch\n", put: "ev.Above >= u.grant.Epoch && false\n",
			pkg: "group/sim", test: simulation,
		},
		{
			name: "worker-claims-one-above", breaks: "a unit is claimed again and again below the epoch that its worker has met",
			file: "group/core/progress.go",
			find: "		u.seen = max(u.seen, ev.Above)\n", put: "",
			pkg: ".", test: "TestAShardIsClaimedAboveWhatItsJournalHas$", limit: "40s",
		},
		{
			name: "compacted-while-it-changes", breaks: "a copy that keeps the journal short comes after what has become of the record",
			file: "subscription/core/from.go",
			find: "it.pending > 0 || it.order != 0 || it.lane.busy == it {", put: "it.order != 0 {",
			pkg: sim, test: simulation,
		},
		{
			name: "members-outlive-their-subscription", breaks: "a subscription can't be deleted while members run, whatever one says",
			file: "subscription/delete.go",
			find: "			if there, err = c.there(ctx, d); err == nil && !there {\n", put: "			if there, err = c.there(ctx, d); err == nil && !there && false {\n",
			pkg: ".", test: "TestMembersEndWithTheirSubscription$", limit: "20s",
		},
		{
			name: "definition-deleted-first", breaks: "a deletion that is cut leaves topics and a group that nobody can name",
			file: "subscription/delete.go",
			find: "	if err := c.dropTopics(ctx, d); err != nil {\n		return err\n	}\n	key := prefix + d.Name\n	_, err := c.reg.Txn(ctx, registry.Txn{Checks: []registry.Check{{Key: key, Version: version}}, Deletes: []string{key}})\n",
			put:  "	key := prefix + d.Name\n	_, err := c.reg.Txn(ctx, registry.Txn{Checks: []registry.Check{{Key: key, Version: version}}, Deletes: []string{key}})\n	if err == nil {\n		err = c.dropTopics(ctx, d)\n	}\n",
			pkg:  ".", test: "TestADeletionThatIsCutAtAnyStepIsFinishedByTheNext$",
		},
		{
			name: "half-deleted-made-ready", breaks: "what is left of a deleted subscription comes to life again, without its progress",
			file: "subscription/document.go",
			find: "		case have.State == deleting:\n", put: "		case have.State == \"\":\n",
			pkg: ".", test: "TestADeletionThatIsCutAtAnyStepIsFinishedByTheNext$",
		},
		{
			name: "parked-records-dropped-without-force", breaks: "records that were never delivered go with a subscription, and nobody is asked",
			file: "subscribedelete.go",
			find: "	case n > 0:\n", put: "	case n < 0:\n",
			pkg: ".", test: "TestADeletionWithoutForceTakesNothingThatIsInUse$",
		},
	}
}
