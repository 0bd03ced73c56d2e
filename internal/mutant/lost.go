package main

// lostMutants are bugs by which the file log takes what was dropped for lost, or the other way round.
func lostMutants() []mutant {
	const pkg = "commitlog/filelog"
	return []mutant{
		{
			name: "dropped-taken-for-lost", breaks: "after a crash with an old page, a log of which only the newest segment was kept tells of damage, and offsets jump",
			file: pkg + "/oldest.go",
			find: "	return segment.At(oldest, segment.Block)\n", put: "	return 0\n",
			pkg: pkg, test: "TestAnOldPageKnowsNothingOfWhatWasDropped$",
		},
		{
			name: "dropped-without-a-mark", breaks: "what retention dropped is called missing",
			file: pkg + "/retain.go",
			find: "	if err := s.markOldest(low + uint64(len(reasons))); err != nil {", put: "	if err := error(nil); err != nil {",
			pkg: pkg, test: "TestAnOldPageKnowsNothingOfWhatWasDropped$",
		},
		{
			name: "trim-outcome-unknown", breaks: "a trim that was never begun has an unknown outcome",
			file: pkg + "/retain.go",
			find: "	if errors.Is(err, fault.Unknown) {\n		err = fmt", put: "	if errors.Is(err, fault.Exists) {\n		err = fmt",
			pkg: pkg, test: "TestATrimBehindASyncErrorSaysThatNothingWasTrimmed$",
		},
		{
			name: "trim-waits-for-an-append", breaks: "after one failed sync nothing can be trimmed until somebody appends",
			file: pkg + "/retain.go",
			find: "s.page.Poison() == n {\n			if err := s.decideFor(n); err != nil {", put: "s.page.Poison() == n && n == 0 {\n			if err := s.decideFor(n); err != nil {",
			pkg: pkg, test: "TestATrimBehindASyncErrorSaysThatNothingWasTrimmed$",
		},
		{
			name: "trim-takes-what-comes-later", breaks: "what is acknowledged in the place of records that were cut off is trimmed",
			file: pkg + "/retain.go",
			find: "	before = min(before, next)\n	return s.withMeta", put: "	return s.withMeta",
			pkg: pkg, test: "TestATrimTakesNothingThatComesInThePlaceOfWhatWasCutOff$",
		},
		{
			name: "lost-taken-for-dropped", breaks: "an oldest segment that was removed by hand is skipped without a word",
			file: pkg + "/plan.go",
			find: "	if p.low = ev.oldest; p.low == 0 {\n", put: "	if p.low = ev.oldest; p.low >= 0 {\n",
			pkg: pkg, test: "TestARemovedOldestSegmentIsNotTakenForRetention$",
		},
		{
			name: "check-takes-lost-for-dropped", breaks: "log check calls a log sound whose oldest segment was removed by hand",
			file: pkg + "/inspect.go",
			find: "		in.missing(oldest, numbers[0])\n", put: "		in.missing(oldest, oldest)\n",
			pkg: pkg, test: "TestARemovedOldestSegmentIsNotTakenForRetention$",
		},
		{
			name: "dropped-comes-back", breaks: "segments that were dropped are there again after a crash",
			file: pkg + "/recover.go",
			find: "	if err := s.removeDropped(ev.dropped); err != nil {", put: "	if err := s.removeDropped(nil); err != nil {",
			pkg: pkg, test: "TestDroppedSegmentsDoNotComeBack$",
		},
		{
			name: "hole-in-what-was-not-promised", breaks: "after a power loss at level os the log goes on behind a segment that is gone, and readers are told of damage",
			file: pkg + "/plan.go",
			find: "			return ev.numbers[:i]\n", put: "			_ = i\n",
			pkg: pkg, test: "TestAPlanKeepsWhatWasPromised$",
		},
		{
			name: "check-cries-wolf", breaks: "log check calls a log damaged of which a power loss took what nobody was promised",
			file: pkg + "/inspect_end.go",
			find: "	return p.cut\n", put: "	return 0 & p.cut\n",
			pkg: pkg, test: "TestInspectCallsWhatWasNotPromisedNoDamage$",
		},
		{
			name: "check-takes-half-a-header-for-damage", breaks: "log check calls a log damaged of which a power loss took one copy of a header that nobody was promised",
			file: pkg + "/inspect.go",
			find: "			if in.promised > segment.At(n, 0) {\n				in.damage(e.file, &e.copies[i])\n", put: "			{\n				in.damage(e.file, &e.copies[i])\n",
			pkg: pkg, test: "TestInspectTakesHalfAHeaderForDamageOnlyWhereSomethingWasPromised$",
		},
		{
			name: "check-blind-to-a-cut", breaks: "log check does not say that records are missing where a file was cut to its header",
			file: pkg + "/inspect.go",
			find: "	in.cutShort()\n", put: "",
			pkg: pkg, test: "TestInspectSeesThatAFileWasCut$",
		},
		{
			name: "copy-of-a-header-lost", breaks: "a header of which a power loss took the second copy stays without it, and log check tells of damage for ever",
			file: pkg + "/recover.go",
			find: "	if err := s.copyHeader(g, p); err != nil {", put: "	if err := error(nil); err != nil {",
			pkg: pkg, test: "TestTheCopyOfAHeaderIsRestored$",
		},
		{
			name: "directory-durable-by-hope", breaks: "the directory of a log is lost with a power failure, because who made it was killed before the sync",
			file: "internal/vfs/os.go",
			find: "	for d := abs; d != filepath.Dir(d); d = filepath.Dir(d) {\n		parents", put: "	for d := \"/\"; d != filepath.Dir(d); d = filepath.Dir(d) {\n		parents",
			pkg: "internal/vfs", test: "TestADirectoryIsMadeDurableUntilSomethingIsInIt$",
		},
	}
}
