package main

// logMutants are bugs of the log on a disk.
func logMutants() []mutant {
	const crash, powerLoss = "commitlog/filelog/crashtest", "TestPowerLossAtEveryOperation$"
	return []mutant{
		{
			name: "skip-the-fsync", breaks: "acknowledged records vanish when the power fails",
			file: "commitlog/filelog/rewrite.go",
			find: "	if g.failed = g.f.SyncData(); g.failed != nil {\n", put: "	if g.failed != nil {\n",
			pkg: crash, test: powerLoss,
		},
		{
			name: "ack-before-the-sync", breaks: "a record is acknowledged while its sync is still under way",
			file: "commitlog/filelog/committer.go",
			find: "		return s.awaitSync(end)\n", put: "		go s.awaitSync(end)\n		return nil\n",
			pkg: crash, test: powerLoss,
		},
		{
			name: "unsynced-is-shown", breaks: "a reader at level sync sees records that a power loss takes",
			file: "commitlog/filelog/store.go",
			find: "		return uint64(s.page.Synced())\n", put: "		return uint64(s.page.Written())\n",
			pkg: "commitlog/filelog", test: "TestAnErrorBehindAnUnsyncedRollShowsNothingThatIsNotDurable$",
		},
		{
			name: "crc-not-checked", breaks: "a flipped bit is handed out as data",
			file: "internal/segment/frame.go",
			find: "		crc32.Update(seed(epoch, off), castagnoli, b[4:]) == binary.LittleEndian.Uint32(b)\n",
			put:  "		crc32.Update(seed(epoch, off), castagnoli, b[4:]) != binary.LittleEndian.Uint32(b)+1\n",
			pkg:  crash, test: powerLoss,
		},
		{
			name: "torn-tail-accepted", breaks: "a frame of which only the header reached the disk becomes part of the log",
			file: "commitlog/filelog/evidence.go",
			find: "		walk.Full = segment.At(h.Number, walk.Off) >= hint\n", put: "		walk.Full = false && hint > 0\n",
			pkg: crash, test: powerLoss,
		},
		{
			name: "failed-sync-tried-again", breaks: "an fdatasync that failed is believed the second time",
			file: "commitlog/filelog/sync.go",
			find: "	s.poisonSegment(n, err)\n	return fmt.Errorf(\"topic %q: fdatasync", put: "	return fmt.Errorf(\"topic %q: fdatasync",
			pkg: crash, test: "TestAFailedSyncIsNotBelievedTheSecondTime$",
		},
		{
			name: "duplicate-append-stored", breaks: "a produce that is tried again is stored twice",
			file: "commitlog/filelog/writer.go",
			find: "	if f.ProducerID != 0 && f.Kind == segment.Records {\n", put: "	if f.ProducerID == 0 && f.Kind == segment.Records {\n",
			pkg: "commitlog/filelog", test: "TestConformanceInMemory$",
		},
		{
			name: "damaged-hold-holds-nothing", breaks: "retention drops what a group needs whose hold can't be read",
			file: "commitlog/filelog/retain.go",
			find: "			offsets = make([]int64, len(lowest))\n", put: "			offsets = nil\n",
			pkg: "commitlog/filelog", test: "TestADamagedHoldKeepsEverythingUntilItIsReplaced$",
		},
		{
			name: "kafka-damaged-hold-holds-nothing", breaks: "retention on Kafka drops what a group needs whose hold can't be read",
			file: "commitlog/kafkalog/hold.go",
			find: "err != nil || len(offsets) != len(held) {\n", put: "err != nil && len(offsets) != len(held) {\n		return nil\n	} else if len(offsets) > len(held) {\n",
			pkg: "commitlog/kafkalog", test: "TestADamagedHoldKeepsEverythingUntilItIsReplaced$", server: "kafka",
		},
		{
			name: "hold-ignored-by-retention", breaks: "retention drops what a group still needs",
			file: "commitlog/filelog/retain.go",
			find: "		if o >= 0 && o < ends[p] {\n", put: "		if o > 0 && o < ends[p] {\n",
			pkg: "commitlog/filelog", test: "TestAHoldKeepsWhatItNeeds$",
		},
		{
			name: "lost-wake-up", breaks: "a reader at the end sleeps on although records came",
			file: "commitlog/memlog/topic.go",
			find: "	p.wakeAll()\n	t.retain()\n", put: "	t.retain()\n",
			pkg: "commitlog/memlog", test: "TestConformance$/dense/Wait/ReturnsOnlyWhenARecordIsReadable",
		},
		{
			name: "sync-that-failed-for-good", breaks: "a disk that was full for a moment keeps a quiet unit from storing its progress for good",
			file: "consumer/settle.go",
			find: "		retry.Reset(pause)\n", put: "",
			pkg: "consumer", test: "TestASyncThatFailedIsTriedAgainAndItsProgressAskedFor$",
		},
		{
			name: "durable-and-nobody-asks", breaks: "the progress of a unit that gets quiet is durable and stays untold",
			file: "consumer/settle.go",
			find: "	s.advanced()\n	return nil", put: "	return nil",
			pkg: "consumer", test: "TestASyncThatFailedIsTriedAgainAndItsProgressAskedFor$",
		},
		{
			name: "no-watchdog-behind-a-sync", breaks: "a handler that hangs is not found out while progress waits for a sync",
			file: "consumer/settle.go",
			find: "	safe.Oldest = p.Oldest\n", put: "",
			pkg: "consumer", test: "TestASyncThatFailedIsTriedAgainAndItsProgressAskedFor$",
		},
		{
			name: "last-progress-goes-with-its-context", breaks: "what was done in a drain that took too long is done again",
			file: "consumer/settle.go",
			find: "s.sync(context.WithoutCancel(ctx))", put: "s.sync(ctx)",
			pkg: "consumer", test: "TestTheLastProgressIsStoredWhenTheDrainTookTooLong$",
		},
		{
			name: "last-progress-is-the-one-before", breaks: "what a unit did at its very end is done again",
			file: "consumer/settle.go",
			find: "	if p.Positions != nil {\n		s.asked = p\n	}\n	s.mu.Unlock()\n	if err", put: "	s.mu.Unlock()\n	if err",
			pkg: "consumer", test: "TestTheLastProgressIsStoredWhenTheDrainTookTooLong$",
		},
	}
}
