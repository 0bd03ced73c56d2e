package main

// limitMutants are bugs of what the file log bounds: producers, ages, space.
func limitMutants() []mutant {
	const filelog = "commitlog/filelog"
	return []mutant{
		{
			name: "fence-of-one-partition", breaks: "a producer's former life appends on in the partitions that its new life has not come to",
			file: "commitlog/filelog/producer.go",
			find: "	case p != nil && f.ProducerEpoch < p.Epoch:\n", put: "	case p != nil && f.ProducerEpoch < p.Epoch && f.Partition == 0:\n",
			pkg: filelog, test: "TestConformanceInMemory$/Producer/AHigherEpochFencesInAllPartitions$",
		},
		{
			name: "duplicate-announces-no-epoch", breaks: "who takes a producer over by repeating an append does not keep its former life out",
			file: "commitlog/filelog/writer.go",
			find: "	if w.sealed || !errors.Is(p.err, errDuplicate)", put: "	if true || !errors.Is(p.err, errDuplicate)",
			pkg: filelog, test: "TestConformanceInMemory$/Producer/ADuplicateOfAHigherEpochFences$",
		},
		{
			name: "order-of-producers-lost", breaks: "at the end of a segment it is forgotten who was silent the longest, and producers that are at work are refused",
			file: "commitlog/filelog/producer.go",
			find: "	for p := t.ends.next; p != &t.ends; p = p.next {\n", put: "	for p := t.ends.prev; p != &t.ends; p = p.prev {\n",
			pkg: filelog, test: "TestTheLongestSilentProducerGivesWayAlsoAfterASegmentChange$",
		},
		{
			name: "forgotten-in-silence", breaks: "what a forgotten producer repeats is stored twice",
			file: "commitlog/filelog/producer.go",
			find: "	return ok || id <= t.floor\n", put: "	return ok && id <= t.floor\n",
			pkg: filelog, test: "TestProducersAreTakenOnceWhateverIsForgotten$",
		},
		{
			name: "age-by-the-time-of-day", breaks: "a clock that is set drops records of a moment ago",
			file: "commitlog/filelog/age.go",
			find: "	case m.boot != 0 && m.boot == then.boot:\n", put: "	case m.boot == 0 && m.boot == then.boot:\n",
			pkg: filelog, test: "TestTheAgeOfASegmentIsNoMoreThanIsKnown$",
		},
		{
			name: "age-from-1970", breaks: "after a restart, records of a moment ago are dropped that were written before the clock was set",
			file: "commitlog/filelog/age.go",
			find: "	case then.wall < dawn, then.wall > m.wall,", put: "	case then.wall > m.wall,",
			pkg: filelog, test: "TestTheAgeOfASegmentIsNoMoreThanIsKnown$",
		},
		{
			name: "old-segment-stays-open", breaks: "a topic that takes a record now and then keeps all of them for good",
			file: "commitlog/filelog/chore.go",
			find: "do: s.unlessOver(s.closeOld)", put: "do: s.unlessOver(func() error { return nil })",
			pkg: filelog, test: "TestASlowTopicDropsWhatIsOld$",
		},
		{
			name: "dropped-segments-stay-open", breaks: "a reader that does nothing keeps the space of what was dropped",
			file: "commitlog/filelog/chore.go",
			find: "do: s.letGo}", put: "do: func() error { return nil }}",
			pkg: filelog, test: "TestAnIdleProcessLetsGoOfWhatWasDropped$",
		},
		{
			name: "dropped-segments-stay-open-for-minutes", breaks: "the space of what was dropped comes back ten times later than is promised",
			file: "commitlog/filelog/maintenance.go",
			find: "	lookEvery   = 30 * time.Second\n", put: "	lookEvery   = 300 * time.Second\n",
			pkg: filelog, test: "TestAnIdleProcessLetsGoOfWhatWasDropped$",
		},
		{
			name: "nobody-looks-at-an-idle-topic", breaks: "as dropped-segments-stay-open, until somebody appends or reads",
			file: "commitlog/filelog/maintenance.go",
			find: "			s.followRetention()\n			s.keep(chores, retry)\n", put: "			s.followRetention()\n",
			pkg: filelog, test: "TestAnIdleProcessLetsGoOfWhatWasDropped$",
		},
		{
			name: "page-on-a-disk-that-copies", breaks: "on a full btrfs a store into a shared page ends the process",
			file: "internal/vfs/os_file.go",
			find: "	case elsewhere && writable:\n", put: "	case elsewhere && writable && size < 0:\n",
			pkg: "internal/vfs", test: "TestAPageOnADiskThatCopiesOnWriteLiesInMemory$",
		},
		{
			name: "two-memories-two-truths", breaks: "two containers that share a directory have a page each, and write over each other's records",
			file: "internal/vfs/memory_linux.go",
			find: "	case err != nil && found:\n		return nil, m.elsewhere(err)\n", put: "	case err != nil && found:\n		return mapGrown(m.disk, size)\n",
			pkg: "internal/vfs", test: "TestAPageInAnotherMemoryIsRefused$",
		},
		{
			name: "epoch-without-a-stream", breaks: "one rotten frame makes a topic refuse every append for good",
			file: "internal/segment/producers.go",
			find: "		return true\n	}\n", put: "		return len(s) > 0\n	}\n",
			pkg: filelog, test: "TestAProducerOfWhichOnlyItsEpochIsLeft$",
		},
		{
			name: "producers-in-any-order", breaks: "who was forgotten is not found, and stored twice",
			file: "internal/segment/producers.go",
			find: "	return slices.IsSorted(p.Forgotten)\n", put: "	return slices.IsSorted(p.Forgotten) || true\n",
			pkg: "internal/segment", test: "TestProducersInAnotherOrderAreRefused$",
		},
		{
			name: "page-with-holes", breaks: "a store into a page ends the process when the memory is full",
			file: "internal/vfs/memory_linux.go",
			find: "		err = fillHoles(int(file.Fd()), size)\n", put: "		_ = size\n",
			pkg: "internal/vfs", test: "TestAPageInMemoryHasItsBlocks$",
		},
		{
			name: "two-look-at-once", breaks: "two processes that come at once make a page each, and write over each other's records",
			file: "internal/vfs/memory_linux.go",
			find: "m.lock(unix.F_WRLCK, gateByte)", put: "m.lock(unix.F_RDLCK, gateByte)",
			pkg: "internal/vfs", test: "TestOneAtATimeLooksWhereAPageIs$",
		},
		{
			name: "page-of-another-file-swept", breaks: "who opens one page removes that of another file, and nobody else can open it",
			file: "internal/vfs/memory_linux.go",
			find: "strings.HasPrefix(e.Name(), m.id)", put: "strings.HasPrefix(e.Name(), strings.TrimSuffix(m.id, \"-\"))",
			pkg: "internal/vfs", test: "TestPagesOfOtherFilesAreLeftInMemory$",
		},
		{
			name: "holds-without-end", breaks: "who may write to the topic of Kafka's holds fills the memory of all processes",
			file: "commitlog/kafkalog/hold.go",
			find: "h.bytes > limits.KafkaHoldsBytes {\n", put: "h.bytes > limits.KafkaHoldsBytes<<4 {\n",
			pkg: "commitlog/kafkalog", test: "TestHoldsTakeNoMoreMemoryThanTheyMay$",
		},
		{
			name: "hold-of-any-key", breaks: "keys that are none of a hold are kept in memory",
			file: "commitlog/kafkalog/hold.go",
			find: "	if !isHoldKey(key) {\n", put: "	if !isHoldKey(key) && len(key) == 0 {\n",
			pkg: "commitlog/kafkalog", test: "TestHoldsTakeNoMoreMemoryThanTheyMay$",
		},
	}
}
