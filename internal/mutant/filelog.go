package main

// fileLogMutants are bugs of the file log's shared page, of its recovery and of its readers.
func fileLogMutants() []mutant {
	const (
		pkg  = "commitlog/filelog/internal/page"
		test = "TestEveryInterleaving$"
	)
	return []mutant{
		{
			name: "acked-cut-after-a-poison", breaks: "what was acknowledged at level os is cut when a sync fails",
			file: pkg + "/move.go",
			find: "	return promised(n, p.Synced(), p.pos(wordAcked))\n", put: "	return promised(n, p.Synced(), 0)\n",
			pkg: pkg, test: test,
		},
		{
			name: "freeze-moves-synced", breaks: "a failure claims that all before its segment is durable, though nobody synced it",
			file: pkg + "/move.go",
			find: "		next := marked(old, p.load(wordPoison))\n", put: "		next := marked(max(old, uint64(segment.At(p.load(wordPoison), 0))), p.load(wordPoison))\n",
			pkg: pkg, test: test,
		},
		{
			name: "sync-lands-behind-a-cut", breaks: "a sync that was under way while its segment was cut is published",
			file: pkg + "/move.go",
			find: "func (p *Page) Cut(n uint64) segment.Pos {\n	p.freeze()\n", put: "func (p *Page) Cut(n uint64) segment.Pos {\n",
			pkg: pkg, test: test,
		},
		{
			name: "zeros-in-the-wrong-segment", breaks: "acknowledged frames are filled with zeros by the mark of another segment",
			file: pkg + "/move.go",
			find: "	if written.Number() != n || poison == n {\n", put: "	if poison == n {\n",
			pkg: pkg, test: test,
		},
		{
			name: "poisoned-and-believed", breaks: "a segment whose sync failed is taken for durable once the log went on in another",
			file: pkg + "/lead.go",
			find: "		case doubt || n <= poison: // no sync of what stands there is a proof\n", put: "		case n < poison:\n",
			pkg: pkg, test: test,
		},
		{
			name: "a-killed-sync-is-forgotten", breaks: "an fdatasync that failed, told only to a process that was killed, is believed the second time",
			file: pkg + "/lead.go",
			find: "	doubt := p.load(wordSyncing) != 0\n", put: "	doubt := false\n",
			pkg: pkg, test: "TestADoubtLastsUntilTheBytesWereWrittenAgain$",
		},
		{
			name: "a-dead-writers-frames-stay", breaks: "frames of a writer that was killed stay behind the log and may come back",
			file: pkg + "/move.go",
			find: "	return intent, intent > written && intent.Number() == written.Number()\n", put: "	return intent, false\n",
			pkg: pkg, test: test,
		},
		{
			name: "any-header-ends-a-segment", breaks: "the header of a start that was given up, and came back with a power loss, cuts off what was acknowledged",
			file: "commitlog/filelog/evidence.go",
			find: "	if !ev.counts(n+1, promised) {\n", put: "	if f := ev.found[n+1]; f == nil || f.header == nil || f.frames == 0 && promised.Number() <= n {\n",
			pkg: "commitlog/filelog", test: "TestAPlanKeepsWhatWasPromised$",
		},
		{
			name: "headers-name-nothing", breaks: "a segment without frames, of which the next header tells, does not count, and what stands behind it is cut off",
			file: "commitlog/filelog/evidence.go",
			find: "	return ev.counts(n+1, promised) && ev.found[n+1].header.PrevCRC == f.header.CRC\n", put: "	return false\n",
			pkg: "commitlog/filelog", test: "TestAPlanKeepsWhatWasPromised$",
		},
		{
			name: "any-next-header-will-do", breaks: "a segment without frames counts though the next header names another one",
			file: "commitlog/filelog/evidence.go",
			find: "	return ev.counts(n+1, promised) && ev.found[n+1].header.PrevCRC == f.header.CRC\n", put: "	return ev.counts(n+1, promised)\n",
			pkg: "commitlog/filelog", test: "TestAPlanKeepsWhatWasPromised$",
		},
		{
			name: "writer-names-no-header", breaks: "the log's own headers don't name the ones before them",
			file: "commitlog/filelog/writer.go",
			find: "		h.PrevCRC = w.seg.h.CRC\n", put: "		h.PrevCRC = 0\n",
			pkg: "commitlog/filelog", test: "TestAHeaderNamesTheOneBefore$",
		},
		{
			name: "wiped-to-the-known-end", breaks: "a frame that an error left behind the end of a segment comes back next to damage",
			file: "commitlog/filelog/plan.go",
			find: "	end := max(f.end, f.beyond)\n", put: "	end := f.end\n",
			pkg: "commitlog/filelog", test: "TestAPlanKeepsWhatWasPromised$",
		},
		{
			name: "lost-newest-segment-forgotten", breaks: "offsets are given out again when the newest segment is gone",
			file: "commitlog/filelog/plan.go",
			find: "	w.tally.lostBytes(size)\n", put: "	_ = size\n",
			pkg: "commitlog/filelog", test: "TestTheNewestSegmentIsLost$",
		},
		{
			name: "cut-frames-return", breaks: "frames that recovery cut off come back behind what was acknowledged since",
			file: "commitlog/filelog/plan.go",
			find: "			w.p.wipe = f.lastSound(t.From)\n", put: "",
			pkg: "commitlog/filelog", test: "TestAPlanKeepsWhatWasPromised$",
		},
		{
			name: "a-reader-invents-an-offset", breaks: "a reader that meets damage skips records that a writer elsewhere appends",
			file: "commitlog/filelog/view.go",
			find: "				v.parts[i].doubt = true\n", put: "				v.parts[i].next += segment.MostRecords(bad.To - bad.From)\n",
			pkg: "commitlog/filelog", test: "TestDamageOfOnePartitionSkipsNothingOfAnother$",
		},
		{
			name: "half-a-wipe", breaks: "what a full disk cut off stays behind the log but for its first bytes",
			file: "commitlog/filelog/writer.go",
			find: "w.wipe(int64(n)) == nil", put: "w.wipe(min(int64(n), segment.FrameHeader)) == nil",
			pkg: "commitlog/filelog", test: "TestNothingOfAWriteThatDidNotFitComesBack$",
		},
		{
			name: "an-open-error-poisons", breaks: "one process without descriptors makes all others start a new segment",
			file: "commitlog/filelog/rewrite.go",
			find: "	case err != nil:\n		return explain(what, err)\n", put: "	case err != nil:\n		return s.failSync(n, err)\n",
			pkg: "commitlog/filelog", test: "TestASegmentThatOneProcessCantOpenIsNotPoisoned$",
		},
		{
			name: "a-late-descriptor-is-believed", breaks: "an fdatasync covers bytes that an earlier one dropped, because its descriptor was opened after the error",
			file: pkg + "/lead.go",
			find: "		if err == nil && !proof {\n", put: "		if err == nil && !proof && (doubt || n <= p.Poison()) {\n",
			pkg: pkg, test: "TestEveryInterleavingWithoutTheSyncLock$",
		},
		{
			name: "every-descriptor-hears", breaks: "who opens a segment after a sync of it failed shows records that a power loss takes",
			file: "commitlog/filelog/sync.go",
			find: "	g := d.s.segs.take(n, nil)\n	if g == nil {\n		return false, nil\n	}\n",
			put:  "	g, err := d.s.segs.get(n)\n	if err != nil {\n		return false, nil\n	}\n	g.hears = 0\n",
			pkg:  "commitlog/filelog/crashtest", test: "TestAFailedSyncThatALateComerIsNotToldOf$",
		},
		{
			name: "a-failed-sync-meanwhile", breaks: "bytes that are written again are called durable, though a sync that failed meanwhile took them along",
			file: "commitlog/filelog/rewrite.go",
			find: "	if g.errors != before {\n", put: "	if g.errors < before {\n",
			pkg: "commitlog/filelog", test: "TestAFailedSyncMeanwhileMakesWhatWasWrittenAgainDoubtful$",
		},
		{
			name: "an-open-error-is-damage", breaks: "a segment that can't be opened for a moment is called damaged, and its records are skipped",
			file: "commitlog/filelog/closed.go",
			find: "errors.Is(err, errUnreadable)\n", put: "errors.As(err, new(*fs.PathError))\n",
			pkg: "commitlog/filelog", test: "TestASegmentThatCantBeOpenedNowIsNotDamaged$",
		},
		{
			name: "close-waits-for-a-stopped-writer", breaks: "a process can't be closed while another one is stopped with the write lock",
			file: "commitlog/filelog/committer.go",
			find: "s.lockWrite(s.writeLock, s.over)", put: "s.lockWrite(s.writeLock, nil)",
			pkg: "commitlog/filelog", test: "TestCloseDoesNotWaitForAStoppedProcess$",
		},
		{
			name: "a-doubt-is-cleared-by-a-failure", breaks: "after a rewrite that failed, the second fdatasync is believed",
			file: pkg + "/lead.go",
			find: "locked && (err == nil || !doubt)", put: "locked",
			pkg: pkg, test: "TestADoubtLastsUntilTheBytesWereWrittenAgain$",
		},
		{
			name: "cut-and-acknowledged", breaks: "what was cut off with its segment is acknowledged, once two more segments were begun",
			file: pkg + "/lead.go",
			find: "	case poison < end.Number():\n", put: "	case poison <= synced.Number():\n",
			pkg: pkg, test: "TestTheFateOfWhatWaits$",
		},
		{
			name: "prepared-in-an-earlier-life", breaks: "a segment gets no durable name, and a power loss takes all that was acknowledged in it",
			file: pkg + "/life.go",
			find: "wordPoison, wordPrepared, wordDeleted", put: "wordPoison, wordDeleted",
			pkg: pkg, test: "TestAnAdoptedPageRemembersNothing$",
		},
		{
			name: "any-page-is-a-hint", breaks: "a page of torn words moves the end of the log",
			file: pkg + "/life.go",
			find: "if pos := p.Synced(); p.load(wordMagic) == magic && p.load(wordCheck) == hintOf(pos) {", put: "if pos := p.Synced(); p.load(wordMagic) == magic {",
			pkg: pkg, test: "TestAPositionThatDoesNotFitItsCheckIsNoHint$",
		},
		{
			name: "frames-of-another-chain", breaks: "frames that a dead writer left behind the end are taken for the log",
			file: "internal/segment/walk.go",
			find: "	case w.Chain != 0 && f.Prev != w.Chain:\n", put: "	case w.Chain == 1 && f.Prev != w.Chain:\n",
			pkg: "internal/segment", test: "TestAFrameOfAnotherChainIsNoPartOfTheLog$",
		},
		{
			name: "too-few-records-in-damage", breaks: "offsets that damaged bytes held are given out again",
			file: "internal/segment/walk.go",
			find: "return max(n, 0)/minRecord + 1", put: "return max(n, 0)/(2*minRecord) + 1",
			pkg: "internal/segment", test: "TestNoBytesHoldMoreRecordsThanIsSaid$",
		},
	}
}
