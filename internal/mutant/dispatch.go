package main

// dispatchMutants are bugs of the engine that runs the records of one unit.
func dispatchMutants() []mutant {
	const dispatch, model = "dispatch", "TestAnyHistoryHandlesEveryRecordInOrderAndRepeatsOnlyTheUnfinished$"
	return []mutant{
		{
			name: "checkpoint-one-too-far", breaks: "the lowest unfinished record is skipped after a crash",
			file: "dispatch/tracker.go",
			find: "	return t.head.rec.Offset\n", put: "	return t.head.rec.Offset + 1\n",
			pkg: dispatch, test: model,
		},
		{
			name: "checkpoint-at-the-highest-finished", breaks: "a slow record is skipped when later ones are finished",
			file: "dispatch/tracker.go",
			find: "	return t.head.rec.Offset\n", put: "	return t.tail.rec.Offset\n",
			pkg: dispatch, test: model,
		},
		{
			name: "done-ranges-ignored-at-restart", breaks: "what was finished out of order is repeated by the next owner",
			file: "dispatch/tracker.go",
			find: "	t.skip = normalize(p.Done)\n", put: "	t.skip = normalize(p.Done[:0])\n",
			pkg: dispatch, test: model,
		},
		{
			name: "key-order-broken-on-retry", breaks: "the followers of a failed record overtake it",
			file: "dispatch/schedule.go",
			find: "	if l == nil {\n		n.last = n\n", put: "	if l == nil || l.state == retrying {\n		n.last = n\n",
			pkg: dispatch, test: model,
		},
		{
			name: "failed-record-counts-as-done", breaks: "a record whose handler failed is never tried again",
			file: "dispatch/settle.go",
			find: "		e.fail(n, err, now)\n", put: "		e.finish(n)\n",
			pkg: dispatch, test: model,
		},
		{
			name: "empty-range-takes-the-next-record", breaks: "a record behind a finished range whose records are gone is skipped",
			file: "dispatch/tracker.go",
			find: "	for len(t.skip) > 0 && t.skip[0][1] <= offset {\n", put: "	for len(t.skip) > 0 && t.skip[0][1] < offset {\n",
			pkg: dispatch, test: "TestTheRecordBehindAFinishedRangeThatIsEmptyIsNotSkipped$",
		},
		{
			name: "loss-unheard-in-a-drain", breaks: "a drain waits for its time-out though the unit is somebody else's",
			file: "dispatch/engine.go",
			find: "	if e.phase == stopped {\n		return\n	}\n	if e.fate", put: "	if e.phase >= draining {\n		return\n	}\n	if e.fate",
			pkg: dispatch, test: "TestOwnershipThatIsLostInADrainEndsTheDrain$",
		},
		{
			name: "handlers-outlive-the-unit", breaks: "handlers go on under a context that the loss of their unit does not end",
			file: "dispatch/engine.go",
			find: "	hctx, cancel := context.WithCancelCause(ctx)\n", put: "	hctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))\n",
			pkg: dispatch, test: "TestOwnershipThatIsLostInADrainEndsTheDrain$",
		},
		{
			name: "progress-that-nobody-tells", breaks: "the checkpoint of a quiet unit comes late, as the group is not told that a record is finished",
			file: "dispatch/settle.go",
			find: "	e.advancedSince(done)\n", put: "	_ = done\n",
			pkg: dispatch, test: "TestThatARecordIsFinishedIsTold$",
		},
		{
			name: "moved-out-of-the-engine", breaks: "an answer of a handler counts that came after the unit was lost, where its record has memory of its own",
			file: "dispatch/memory.go",
			find: " lost: r.data.lost,", put: "",
			pkg: dispatch, test: "TestARecordWithMemoryOfItsOwnBelongsWhereItCameFrom$",
		},
		{
			name: "progress-after-the-unit-is-lost", breaks: "a handler that was cancelled still moves the checkpoint",
			file: "dispatch/settle.go",
			find: "frozen := e.frozen()", put: "frozen := false",
			pkg: dispatch, test: "TestLostOwnershipCancelsHandlersAndFreezesProgress$",
		},
		{
			name: "stuck-reader-told-once", breaks: "a partition that can't be read for hours looks like one that has nothing new",
			file: "dispatch/refuse.go",
			find: "	if now.Sub(t.since) < due {\n", put: "	if t.told > 0 || now.Sub(t.since) < due {\n",
			pkg: "dispatch", test: "TestPeopleAreToldAgainOfAReadThatKeepsFailing$",
		},
		{
			name: "marks-beyond-the-end", breaks: "what a checkpoint says of records that are not there yet hides them once they are",
			file: "dispatch/marks.go",
			find: "	if start.Highest() <= b.Next {\n", put: "	if start.Next <= b.Next {\n",
			pkg: "dispatch", test: "TestMarksBeyondTheEndHideNoRecord$",
		},
		{
			name: "failures-beyond-the-end", breaks: "a record that is not there yet has failed for ever, and its key waits for it",
			file: "registry/checkpoint.go",
			find: "		top = max(top, f.Offset+1)\n", put: "		top = max(top, 0*f.Offset)\n",
			pkg: "dispatch", test: "TestMarksBeyondTheEndHideNoRecord$",
		},
		{
			name: "marks-beyond-the-end-untold", breaks: "people see a lag that is too low where nobody believes the checkpoint",
			file: "consumer/status.go",
			find: "	case top > b.Next:\n", put: "	case top > b.Next && ck.Next < 0:\n",
			pkg: "consumer", test: "TestACheckpointThatNamesRecordsBeyondTheEndHidesNone$",
		},
	}
}
