package main

// orderMutants are bugs by which the file log or the file registry does something before what has to come
// first, or believes a file that is another one.
func orderMutants() []mutant {
	const filelog, registry, index = "commitlog/filelog", "registry/fileregistry", "internal/segment/index.go"
	return []mutant{
		{
			name: "why-asks-for-what-was-decided", breaks: "why tells people to redrive a dead letter that they have redriven",
			file: "subscription/delivery/why.go",
			find: "l.Head.Reason.String(), decided[l.Head.Order]\n", put: "l.Head.Reason.String(), \"\"\n",
			pkg: ".", test: "TestWhyTellsWhatWasOrderedAndIsNotDoneYet$",
		},
		{
			name: "why-without-an-order", breaks: "why says that nothing of a key is parked where that has no key",
			file: "subscription/delivery/why.go",
			find: "	if d.Order != subscription.None {\n", put: "	if d.Order != \"\" {\n",
			pkg: ".", test: "TestWhyHasNoAnswerWithoutAnOrder$",
		},
		{
			name: "short-writes-unsaid", breaks: "records that a full disk refused are there after the next recovery: what was written of them is not wiped",
			file: "internal/vfs/os_file.go",
			find: "			return n, err\n		}\n		if m == 0 {\n", put: "			return 0, err\n		}\n		if m == 0 {\n",
			pkg: "internal/vfs", test: "TestAWriteThatIsCutShortSaysWhere$",
		},
		{
			name: "duplicate-acked-before-its-original", breaks: "a repeated append is acknowledged though a power loss takes the record",
			file: filelog + "/writer.go",
			find: "		end = segment.At(w.seg.number, w.off)\n	}\n	return end\n", put: "		if end = segment.At(w.seg.number, w.off); size == 0 {\n			end = 0\n		}\n	}\n	return end\n",
			pkg: filelog, test: "TestADuplicateWaitsForTheSyncOfItsOriginal$",
		},
		{
			name: "trimmed-before-it-is-durable", breaks: "a trim at level os goes past what a power loss leaves",
			file: filelog + "/retain.go",
			find: "	if err := s.syncAll(); err != nil {", put: "	if err := error(nil); err != nil {",
			pkg: filelog, test: "TestATrimFailsWhileWhatItTrimsIsNotDurable$",
		},
		{
			name: "offsets-in-front-of-a-trim", breaks: "records get offsets that are trimmed, and nobody reads them",
			file: filelog + "/plan.go",
			find: "		if first > bases[p] {", put: "		if first < 0 {",
			pkg: filelog, test: "TestAPlanGoesOnBehindWhatWasTrimmed$",
		},
		{
			name: "prepared-over-a-live-segment", breaks: "the maintenance puts a file of zeros in the place of a segment that was begun without it",
			file: filelog + "/maintenance.go",
			find: "	if s.page.Written().Number()+1 != n {", put: "	if n == 0 {",
			pkg: filelog, test: "TestAPreparedFileThatComesLateReplacesNoSegment$",
		},
		{
			name: "dropped-before-it-is-durable", breaks: "retention drops all that a power loss would leave",
			file: filelog + "/retain.go",
			find: "	if n >= min(s.page.Written().Number(), s.page.Synced().Number()) {", put: "	if n >= s.page.Written().Number() {",
			pkg: filelog, test: "TestWhatIsNotDurableIsNotDropped$",
		},
		{
			name: "passed-segment-wakes-nobody", breaks: "who waits for a record sleeps on when the log went on by whole segments since",
			file: filelog + "/view.go",
			find: "		moved := base > p.next\n", put: "		moved := base < 0\n",
			pkg: filelog, test: "TestAWaiterHearsOfRecordsInASegmentThatWasPassed$",
		},
		{
			name: "index-of-another-start", breaks: "the index of a segment that a crash took back is believed for the one that came in its place",
			file: index,
			find: " || le.Uint32(b[24:]) != h.CRC", put: "",
			pkg: "internal/segment", test: "TestAnIndexIsThatOfItsSegmentAlone$",
		},
		{
			name: "index-beyond-the-cut", breaks: "an index names frames that are no part of the log",
			file: index,
			find: " || f.Base >= ends[f.Partition]", put: "",
			pkg: "internal/segment", test: "TestAnIndexIsThatOfItsSegmentAlone$",
		},
		{
			name: "registry-header-before-the-snapshot", breaks: "a power loss leaves a generation in force that has no content",
			file: registry + "/space.go",
			find: "	if _, err := f.WriteAt(snap, pageSize); err != nil && len(snap) > 0 {\n		return 0, err\n	}\n	return size, f.SyncData()\n",
			put:  "	if _, err := f.WriteAt(snap, pageSize); err != nil && len(snap) > 0 {\n		return 0, err\n	}\n	return size, nil\n",
			pkg:  registry, test: "TestASnapshotIsDurableBeforeItsHeader$",
		},
		{
			name: "registry-shows-what-is-not-durable", breaks: "a process acts on what it read, and a power loss takes that back",
			file: registry + "/core.go",
			find: "		if err != nil || c.syncer.durable(c.j.applied) {", put: "		if err != nil || c.syncer != nil {",
			pkg: registry, test: "TestAReadingShowsWhatIsDurable$",
		},
		{
			name: "registry-own-deadline-ignored", breaks: "who did not run for its TTL writes on until it looks at the clock",
			file: registry + "/evaluate.go",
			find: "	if err := c.fenced(id); err != nil {", put: "	if err := error(nil); err != nil {",
			pkg: registry, test: "TestAWriteBehindTheDeadlineIsFencedBeforeAnybodyLooks$",
		},
	}
}
