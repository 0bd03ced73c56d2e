package main

// fileRegistryMutants are bugs of the registry in a directory: its lock, its sessions, its page.
func fileRegistryMutants() []mutant {
	const dir = "registry/fileregistry/"
	all := []mutant{
		{
			name: "registry-lock-nobody-wants", breaks: "an idle process keeps the write lock, and every other writer is unavailable",
			file: dir + "core.go",
			find: "		c.lock.giveUp()\n	}\n	c.release()\n", put: "		c.lock.giveUp()\n		return\n	}\n	c.release()\n",
			test: "TestAWriterThatGaveUpLeavesTheLockToOthers$",
		},
		{
			name: "registry-lock-names-the-last", breaks: "a message sends whoever reads it to kill a process that has done nothing",
			file: dir + "lock.go",
			find: "	l.holder.Store(0)\n", put: "",
			test: "TestALockThatNobodyWantsIsNeverKept$",
		},
		{
			name: "registry-reads-wait-for-the-lock", breaks: "beside a stopped process nothing can be read",
			file: dir + "core.go",
			find: "		if reads != nil {\n			c.read(reads)\n", put: "		for ; len(c.waiting) > 0 && !c.ending; c.turn() {\n			time.Sleep(lockEvery)\n		}\n		if reads != nil {\n			c.read(reads)\n",
			test: "TestReadsDoNotQueueBehindWritesThatWait$",
		},
		{
			name: "registry-withdrawn-is-written", breaks: "a write that was given up, with a certain answer, is done later",
			file: dir + "call.go",
			find: "		return reply{}, !r.fate.CompareAndSwap(0, withdrawn), ctx.Err()\n", put: "		return reply{}, false, ctx.Err()\n",
			test: "TestWhoGivesUpWhileTheLockIsTakenHasDoneNothing$",
		},
		{
			name: "registry-given-up-session-stays", breaks: "sessions that nobody has fill the table",
			file: dir + "round.go",
			find: "		if info.handle == k.s.handle && !held[info.id] {\n", put: "		if info.handle == k.s.handle && held[\"\"] {\n",
			test: "TestAnOpeningThatWasGivenUpLeavesNoSession$",
		},
		{
			name: "registry-dead-for-ever", breaks: "a session whose end was announced and never written keeps its entries for ever",
			file: dir + "round.go",
			find: "		case is.over && was.over:\n", put: "		case is.over && was.over && was.since.IsZero():\n",
			test: "TestAnAnnouncedEndIsWrittenByWhoeverSeesIt$",
		},
		{
			name: "registry-slot-given-away", breaks: "a session whose slot another one got in a frame that failed is never ended",
			file: dir + "round.go",
			find: "over: !tagged(w, info.tag) || w&dead != 0}", put: "over: tagged(w, info.tag) && w&dead != 0}",
			test: "TestASessionWhoseWordIsAnothersIsOver$",
		},
		{
			name: "registry-page-of-nobody", breaks: "a file system that was mounted again takes back what was acked, and epochs with it",
			file: dir + "life.go",
			find: "	if err := s.load(alone); err != nil {\n", put: "	if err := s.load(alone && s.ctl.magic.Load() != controlMagic); err != nil {\n",
			test: "TestAPageIsBelievedOnlyWhileSomebodyLives$",
		},
		{
			name: "registry-appends-to-the-recovered", breaks: "a version is given out twice, and pieces of a lost future come back",
			file: dir + "recover.go",
			find: "	j.ctl.sealed.Store(j.hdr.gen)\n", put: "",
			test: "TestNothingIsAppendedBehindARecoveredEnd$",
		},
		{
			name: "registry-name-of-the-journal", breaks: "a power loss takes a whole generation: who made its file was killed before it made the name durable",
			file: dir + "space.go",
			find: "err != nil || j.named[i] {\n", put: "err != nil || j.named[i] || j.st.m.Len() >= 0 {\n",
			test: "TestAKillBetweenAnyTwoStoresOfTheFirstProcess$",
		},
		{
			name: "registry-replaced-unseen", breaks: "a process goes on with a registry that was removed, and has units that others have as well",
			file: dir + "life.go",
			find: "	if !away {\n", put: "	if !away || err.Error() == \"it is another one now\" {\n",
			test: "TestADirectoryThatWasReplacedIsLeftAlone$",
		},
		{
			name: "registry-moved-unseen", breaks: "a process goes on with a registry whose data directory was moved away, and has units that others have as well",
			file: dir + "life.go",
			find: "	away, err := vfs.Away(d.fs, name, d.info) //", put: "	_, err := d.fs.Stat(name)\n	away := err != nil //",
			test: "TestADirectoryThatWasReplacedIsLeftAlone$",
		},
		{
			name: "registry-signal-rotated-away", breaks: "a watch is not told what another process wrote before it rotated the journal",
			file: dir + "journal.go",
			find: "		ch.all, ch.sessions = true, true\n", put: "		ch.sessions = true\n",
			test: "TestAWatchIsToldWhatAnotherProcessRotatedAway$",
		},
		{
			name: "registry-waits-for-a-ring", breaks: "a write whose writer was killed before it could ring is never seen",
			file: dir + "round.go",
			find: "	k.s.poke() //", put: "	//",
			test: "TestAWriteWithoutAWakeUpIsSeenAllTheSame$",
		},
		{
			name: "registry-lease-from-the-answer", breaks: "a process believes in a session of a directory that others have ended",
			file: dir + "session.go",
			find: "	deadline := sent.Add(time.Duration(info.ttl))\n", put: "	deadline := sent.Add(time.Since(sent) + time.Duration(info.ttl))\n",
			test: "TestADeadlineCountsFromWhenTheStoreWasAskedFor$",
		},
		{
			name: "registry-renewal-from-the-answer", breaks: "as registry-lease-from-the-answer, at a renewal",
			file: dir + "session.go",
			find: "	deadline := sent.Add(time.Duration(x.info.ttl))\n", put: "	deadline := time.Now().Add(time.Duration(x.info.ttl))\n",
			test: "TestADeadlineCountsFromWhenTheStoreWasAskedFor$",
		},
		{
			name: "registry-no-room-for-the-next", breaks: "whoever is restarted on a full disk can't begin a generation, and stands still",
			file: dir + "space.go",
			find: "	if err != nil || have >= size {\n", put: "	if err != nil || size > 0 {\n",
			test: "TestWhoIsRestartedOnAFullDiskGoesOn$",
		},
		{
			name: "registry-one-header", breaks: "one damaged byte in the file that is not in force makes the registry unreadable",
			file: dir + "header.go",
			find: "	copy(b[secondHeader:], h.encode())\n", put: "",
			test: "TestAHeaderThatIsDamagedOnceIsHarmless$",
		},
		{
			name: "registry-half-a-header-taken-back", breaks: "a generation that was taken back wins after a power loss, by its second header",
			file: dir + "journal.go",
			find: "make([]byte, pageSize)); err", put: "make([]byte, headerSize)); err",
			test: "TestAProcessKilledAtEveryOperationHarmsNoOther$",
		},
		{
			name: "registry-first-journal-gone", breaks: "a registry whose only journal was removed is taken for a new one",
			file: dir + "recover.go",
			find: "	case !found && j.files[0] != nil && j.files[1] == nil:", put: "	case !found && j.files[0] != nil && j.files[1] == j.files[0]:",
			test: "TestAFirstJournalThatIsGoneIsMissed$",
		},
		{
			name: "registry-eio-is-damage", breaks: "a disk that fails once while the registry is opened sends whoever reads it to the backup",
			file: dir + "recover.go",
			find: "			return nil, readError(err)\n", put: "			return nil, fault.Corrupt\n",
			test: "TestAnOperationThatFailsAtOpeningIsNoDamage$",
		},
		{
			name: "registry-older-generation", breaks: "the newest journal is lost, and the one before it taken for the registry",
			file: dir + "recover.go",
			find: "	case found && hdr.gen > 1 && j.files", put: "	case found && hdr.gen > 1<<60 && j.files",
			test: "TestALostGenerationIsNotReplacedByTheOneBefore$",
		},
		{
			name: "registry-overwrites-what-it-stands-on", breaks: "a power loss in the middle of a recovery leaves no generation whole",
			file: dir + "journal.go",
			find: "		if err := writeSynced(j.file(gen), j.hdr.page()); err != nil {\n", put: "		if _, err := j.file(gen).WriteAt(j.hdr.page(), 0); err != nil {\n",
			test: "TestARecoveredGenerationIsDurableBeforeTheOneBeforeIsOverwritten$",
		},
		{
			name: "registry-waited-and-forgot", breaks: "a recovery that waited for room overwrites all that the disk has: a power loss takes the whole registry",
			file: dir + "recover.go",
			find: "		return j.postpone(hdr.gen)\n", put: "		j.ctl.rotating.Store(0)\n		return j.postpone(hdr.gen)\n",
			test: "TestARecoveryThatWaitedForRoomOverwritesNothingThatItNeeds$",
		},
		{
			name: "registry-header-only-on-the-disk", breaks: "a header that memory does not have any more is the newest after a power loss, before a snapshot that is another's",
			file: dir + "journal.go",
			find: "		if ok {\n			j.ctl.rotating.Store(0)\n", put: "		if ok || gen > 0 {\n			j.ctl.rotating.Store(0)\n",
			test: "TestAHeaderThatOnlyTheDiskHasIsTakenBack$",
		},
		{
			name: "registry-piece-of-the-format", breaks: "a registry is called damaged because its first process did not finish writing its format",
			file: dir + "fileregistry.go",
			find: "strings.TrimRight(have, \"\\x00\")) {", put: "have) {",
			test: "TestAPieceOfTheFormatIsNoDamage$",
		},
		{
			name: "registry-opening-waits-for-the-dead", breaks: "opening a registry to read it waits for a stopped writer, when some process was killed",
			file: dir + "ring.go",
			find: "context.WithTimeout(ctx, sweepPatience)", put: "context.WithTimeout(ctx, 2*lockPatience+sweepPatience)",
			test: "TestOpeningBesideAStoppedWriterDoesNotWaitForTheDead$",
		},
		{
			name: "registry-failed-sync-forgotten", breaks: "what others ack behind a frame whose failed sync only a dead process was told of is lost",
			file: dir + "doubt.go",
			find: "	if mark.Load() == 0 {\n", put: "	if mark.Load() < 1<<32 {\n",
			test: "TestAFailedSyncThatOnlyADeadProcessWasToldOf$",
		},
		{
			name: "registry-mark-gone-before-the-word", breaks: "as registry-failed-sync-forgotten, when it is killed between two stores",
			file: dir + "doubt.go",
			find: "	if err = f.SyncData(); err != nil {\n		s.ctl.doubt(i) // before the mark goes\n	}\n	s.ctl.syncs[i].Add(^uint64(0))\n",
			put:  "	err = f.SyncData()\n	s.ctl.syncs[i].Add(^uint64(0))\n	if err != nil {\n		s.ctl.doubt(i)\n	}\n",
			test: "TestAFailedSyncThatOnlyADeadProcessWasToldOf$",
		},
		{
			name: "registry-sync-of-another-file", breaks: "what another process wrote to the next generation is acked when the file of the one before is synced",
			file: dir + "syncer.go",
			find: "		written := s.ctl.written.Load()\n		gen := s.ctl.gen.Load()\n", put: "		gen := s.ctl.gen.Load()\n		written := s.ctl.written.Load()\n",
			test: "TestASyncCoversNothingOfTheNextGeneration$",
		},
		{
			name: "registry-marks-stay", breaks: "each process that comes after a killed sync writes the journal anew",
			file: dir + "doubt.go",
			find: "		mark.Store(0) //", put: "		//",
			test: "TestTheMarkOfADeadSyncIsTakenAwayOnce$",
		},
		{
			name: "registry-seal-taken-back", breaks: "who was stopped for long makes others go on in a generation that lost what was written to it",
			file: dir + "doubt.go",
			find: "		if old >= gen || c.sealed", put: "		if old == gen || c.sealed",
			test: "TestASealIsNotTakenBack$",
		},
		{
			name: "registry-first-session-only", breaks: "a write in the name of two sessions is accepted though the second one is over",
			file: dir + "evaluate.go",
			find: "err == nil && i < len(t.Puts); i++ {", put: "err == nil && i < min(1, len(t.Puts)); i++ {",
			test: "TestEachSessionOfATransactionIsAlive$",
		},
		{
			name: "registry-another's-heartbeat", breaks: "a session whose slot was given away is alive as long as the new one is",
			file: dir + "evaluate.go",
			find: "if w := c.j.ctl.slot(info.slot).Load(); !tagged(w, info.tag) || w&dead != 0 {", put: "if w := c.j.ctl.slot(info.slot).Load(); w&dead != 0 {",
			test: "TestEachSessionOfATransactionIsAlive$",
		},
		{
			name: "registry-beats-into-the-tag", breaks: "a session dies of its eight millionth heartbeat",
			file: dir + "control.go",
			find: "		next := tag<<tagShift | (w+beat)&(1<<tagShift-1)\n", put: "		next := w + beat\n",
			test: "TestAHeartbeatNeverRunsIntoItsTag$",
		},
		{
			name: "registry-ends-the-next", breaks: "who ends a session late ends the one that got its slot",
			file: dir + "control.go",
			find: "		if !tagged(w, tag) || w&dead != 0 || slot.CompareAndSwap(w, w|dead) {", put: "		if w&dead != 0 || slot.CompareAndSwap(w, w|dead) {",
			test: "TestOnlyTheSessionThatIsMeantIsBuried$",
		},
		{
			name: "registry-generation-too-early", breaks: "others are sent to a generation that is not there, and can't read",
			file: dir + "journal.go",
			find: "	j.ctl.rotating.Store(hdr.gen)\n", put: "	j.ctl.rotating.Store(hdr.gen)\n	j.ctl.gen.Store(hdr.gen)\n",
			test: "TestAGenerationIsInForceOnlyWhenItIsThere$",
		},
		{
			name: "registry-nonce-again", breaks: "versions are given out twice, when chance wants it",
			file: dir + "journal.go",
			find: "n != last && n != 0 {", put: "n != 0 {",
			test: "TestANonceIsNeverTheLastOneAndNeverZero$",
		},
		{
			name: "registry-nonce-of-zeros", breaks: "zeros can pass for what a generation wrote, when chance wants it",
			file: dir + "journal.go",
			find: "n != last && n != 0 {", put: "n != last {",
			test: "TestANonceIsNeverTheLastOneAndNeverZero$",
		},
		{
			name: "registry-shut-on-a-full-disk", breaks: "on a full disk that copies on write nobody can start",
			file: dir + "recover.go",
			find: "	if full(err) {\n		return j.postpone(hdr.gen)\n", put: "	if full(err) {\n		return err\n",
			test: "TestARegistryOpensOnADiskWithoutAnyRoom$",
		},
	}
	for i := range all {
		all[i].pkg = "registry/fileregistry"
	}
	return all
}
