package main

// laterMutants are bugs of handlers that answer later, and of batches.
func laterMutants() []mutant {
	const dispatch, front = "dispatch", "."
	const asReturn = "TestASubscriptionTreatsAnAnswerThatComesLaterAsAReturn$"
	return []mutant{
		{
			name: "out-is-no-handler", breaks: "as many records are out at once as there are, whatever the concurrency",
			file: "dispatch/worker.go",
			find: "{ return e.running + e.outs.count + e.permits }", put: "{ return e.running + e.permits }",
			pkg: dispatch, test: "TestARecordThatIsOutHoldsItsKeyAndNoWorker$",
		},
		{
			name: "claims-beyond-the-concurrency", breaks: "workers send more records out at once than handlers may be at work",
			file: "dispatch/worker.go",
			find: "		e.permit(w, len(w.batch)-1)\n", put: "",
			pkg: dispatch, test: "TestNoMoreRecordsAreOutThanHandlersMayBeAtWork$",
		},
		{
			name: "followers-before-the-answer", breaks: "the next record of a key begins while the one before it is out",
			file: "dispatch/worker.go",
			find: "		w.batch = e.sched.takeLeaders(", put: "		w.batch = e.sched.take(",
			pkg: dispatch, test: "TestAnyHistoryHandlesEveryRecordInOrderAndRepeatsOnlyTheUnfinished$",
		},
		{
			name: "answer-that-nobody-takes", breaks: "who asks to answer later when the handler has returned is told that the answer counts",
			file: "dispatch/later.go",
			find: "	if l.atWork == nil || l.atWork(l.at) {\n", put: "	if l.atWork == nil || l.at != (Attempt{}) {\n",
			pkg: dispatch, test: "TestAnAnswerThatNobodyTakesIsTold$",
		},
		{
			name: "answer-of-another-attempt", breaks: "a message that was kept has an answer of the record that is in its place by now",
			file: "dispatch/later.go",
			find: "d.atWork == nil || !d.atWork(at) {", put: "d.atWork == nil {",
			pkg: dispatch, test: "TestAnAnswerThatNobodyTakesIsTold$",
		},
		{
			name: "taken-and-told-too-late", breaks: "who answers as the handler returns is told that it is too late, though the answer counts",
			file: "dispatch/later.go",
			find: "	case l.take != nil:\n		return nil\n	case errors.Is", put: "	case errors.Is",
			pkg: "dispatch", test: "TestAnAnswerThatCrossesTheReturnIsToldWhatBecameOfIt$",
		},
		{
			name: "error-told-as-too-late", breaks: "who answers as the handler fails, or the unit is lost, is told that he asked too late",
			file: "dispatch/later.go",
			find: "	case errors.Is(l.void, errTwice):\n", put: "	default:\n",
			pkg: "dispatch", test: "TestAnAnswerThatCrossesTheReturnIsToldWhatBecameOfIt$",
		},
		{
			name: "at-work-behind-the-end", breaks: "a process breaks when somebody asks for an answer as the last handler of a batch returns",
			file: "dispatch/later.go",
			find: "max(0, min(int(w.cursor.Load()), w.limit)-1)", put: "max(0, int(w.cursor.Load())-1)",
			pkg: "dispatch", test: "TestAWorkerIsAtTheRecordThatItHandledLast$",
		},
		{
			name: "moved-out-answers-nothing", breaks: "a record that was held for long can be answered at the return only",
			file: "dispatch/memory.go",
			find: ", atWork: r.data.atWork}", put: "}",
			pkg: "dispatch", test: "TestARecordWithMemoryOfItsOwnBelongsWhereItCameFrom$",
		},
		{
			name: "answer-behind-a-parked-handler", breaks: "who asks to answer a parked record later when its handler has returned is told that the answer counts",
			file: "dispatch/later.go",
			find: "		d.over.Store(true)\n", put: "		_ = d\n",
			pkg: "dispatch", test: "TestNoAnswerIsOwedForWhatWasHandledWithoutAnEngine$",
		},
		{
			name: "answer-of-a-kept-attempt", breaks: "a record waits for ever for an answer that was asked of an earlier attempt",
			file: "dispatch/worker.go",
			find: "		r, again.late = &again, nil\n", put: "		r = &again\n",
			pkg: "dispatch", test: "TestAnAnswerAskedOfAnEarlierAttemptIsNotOwedByALaterOne$",
		},
		{
			name: "copies-have-no-answer", breaks: "the answer for a copy of a message counts for nothing, and nobody is told",
			file: "dispatch/later.go",
			find: "		r.late.atWork, r.late.at = d.atWork, at\n	}\n	return r.late\n", put: "	}\n	l := r.late\n	r.late = nil\n	return l\n",
			pkg: front, test: "TestACopyOfAMessageIsAnsweredLaterToo$",
		},
		{
			name: "second-answer-counts", breaks: "a record is finished twice by a handler that answers twice",
			file: "dispatch/later.go",
			find: "	if l.given {\n		defer", put: "	if l.given && l.take == nil {\n		defer",
			pkg: dispatch, test: "TestAnAnswerThatComesLaterIsTreatedAsAReturn$",
		},
		{
			name: "answer-after-a-panic", breaks: "a record whose handler panicked waits for an answer that nobody owes",
			file: "dispatch/later.go",
			find: "	if err != nil {\n		l.end(errSaid)\n		return err\n	}\n	l.node", put: "	if err != nil && l.given {\n		l.end(errSaid)\n		return err\n	}\n	l.node",
			pkg: dispatch, test: "TestAHandlerThatFailsOwesNoAnswer$",
		},
		{
			name: "drain-forgets-what-is-out", breaks: "a drain is over while records are out, and they are done again",
			file: "dispatch/worker.go",
			find: "len(e.workers) == 0 && e.outs.count == 0 && e.over()", put: "len(e.workers) == 0 && e.over()",
			pkg: dispatch, test: "TestADrainWaitsForRecordsThatAreOut$",
		},
		{
			name: "out-for-ever", breaks: "a record whose answer never comes holds up its partition for ever, in spite of a time-out",
			file: "dispatch/monitor.go",
			find: "	e.watchOut(now)\n", put: "",
			pkg: dispatch, test: "TestARecordThatIsOutForTooLongGivesTheUnitUp$",
		},
		{
			name: "answer-after-the-unit-is-lost", breaks: "who answers for a record that is somebody else's believes that it counts",
			file: "dispatch/later.go",
			find: "	if frozen {\n		return errLost\n	}\n", put: "",
			pkg: dispatch, test: "TestALostUnitCancelsRecordsThatAreOutAndTellsWhoAnswers$",
		},
		{
			name: "answer-moves-a-lost-checkpoint", breaks: "an answer that comes after the unit was lost moves its progress",
			file: "dispatch/later.go",
			find: "	frozen := e.frozen()", put: "	frozen := e.phase == stopped",
			pkg: dispatch, test: "TestALostUnitCancelsRecordsThatAreOutAndTellsWhoAnswers$",
		},
		{
			name: "answer-lost-at-the-return", breaks: "an answer that comes while the worker accounts for its record is lost",
			file: "dispatch/later.go",
			find: "		l.known, l.knownAnswer = true, err\n", put: "",
			pkg: dispatch, test: "TestAnAnswerBehindTheReturnAndBeforeItIsAccountedForCounts$",
		},
		{
			name: "out-of-place-in-memory", breaks: "the engine moves a record in memory under whoever is at work on it",
			file: "dispatch/memory.go",
			find: "n.state != claimed && n.state != out && n.rec.data", put: "n.state != claimed && n.rec.data",
			pkg: dispatch, test: "TestARecordThatIsOutStaysWhereItIs$",
		},
		{
			name: "slot-given-at-the-return", breaks: "a record that is answered later counts for nothing in the concurrency of its subscription",
			file: "subscription/slots.go",
			find: "	if late = err == nil && r.Late(); late {", put: "	if late = false; late {",
			pkg: front, test: "TestARedeliveryWaitsForARecordThatIsOut$",
		},
		{
			name: "outage-answered-later-unheard", breaks: "an outage that is answered later costs every record its attempts",
			file: "subscription/breaker.go",
			find: "		r.Then(func(err error) error { return s.judged(ctx, began, r, err) })\n", put: "		r.Then(func(err error) error { return errors.Join(err, s.judged(ctx, began, r, nil)) })\n",
			pkg: front, test: "TestAnOutageThatIsAnsweredLaterHoldsDeliveriesBack$",
		},
		{
			name: "parked-answer-not-waited-for", breaks: "a parked record whose handler answers later is done before it is",
			file: "subscription/breaker.go",
			find: "	if !parked {\n		return err", put: "	if true {\n		return err",
			pkg: front, test: asReturn,
		},
		{
			name: "batch-done-as-a-whole", breaks: "what fails in a batch counts as done with the rest",
			file: "consumer/batches.go",
			find: "		return func(i int) error { return answers[i] }\n", put: "		return func(int) error { return answers[0] }\n",
			pkg: front, test: "TestABatchIsDoneButForWhatFailsInIt$",
		},
		{
			name: "batch-of-too-few-errors", breaks: "a batch counts as done though its handler said so of one message only",
			file: "consumer/batches.go",
			find: "	return func(int) error { return err }\n}\n\n// together", put: "	return func(int) error { return errors.Join(answers...) }\n}\n\n// together",
			pkg: front, test: "TestABatchWhoseHandlerFailsIsTriedAgain$",
		},
		{
			name: "drain-waits-for-a-batch", breaks: "a drain waits for messages that nobody brings any more",
			file: "consumer/batches.go",
			find: "	case <-b.Hurry:\n	case <-dispatch.Last(first.ctx):\n", put: "",
			pkg: front, test: "TestADrainWaitsForNoFullBatch$",
		},
		{
			name: "turn-waits-for-a-batch", breaks: "shards wait in a turn for messages that nobody brings any more",
			file: "consumer/batches.go",
			find: "	case <-dispatch.Last(first.ctx):\n", put: "",
			pkg: front, test: "TestATurnWaitsForNoFullBatch$",
		},
		{
			name: "cancelled-in-a-batch", breaks: "a handler of batches gets messages whose partition was lost while they waited",
			file: "consumer/batches.go",
			find: "		if i.ctx.Err() == nil {", put: "		if i.ctx != nil {",
			pkg: "consumer", test: "TestWhatWasCancelledWhileItWaitedIsInNoCall$",
		},
		{
			name: "batch-waits-anew", breaks: "a message that waited behind a call waits the whole time for others once more",
			file: "consumer/batches.go",
			find: "time.NewTimer(time.Until(first.since.Add(b.Wait)))", put: "time.NewTimer(b.Wait)",
			pkg: "consumer", test: "TestTheTimeBehindACallCountsAsWaiting$",
		},
		{
			name: "full-batches-one-by-one", breaks: "full batches wait for a call to end though more may be under way",
			file: "consumer/batches.go",
			find: "	default:\n	}\n	b.begin()\n	return batch, cancelled", put: "	default:\n	}\n	return batch, cancelled",
			pkg: "consumer", test: "TestAsManyCallsBeginAsThereAreFullBatches$",
		},
		{
			name: "calls-not-joined", breaks: "Subscribe and Consume return while a call of a batch is ending",
			file: "consumer/batches.go",
			find: "	if c.ending == 0 {\n		close(calm)", put: "	if c.ending >= 0 {\n		close(calm)",
			pkg: "consumer", test: "TestWhoJoinsWaitsForTheEndOfCalls$",
		},
		{
			name: "oldest-answer-is-not-first", breaks: "of the answers that do not come an older one is missed later than a younger",
			file: "dispatch/later.go",
			find: "	for at != nil && at.since.After(l.since) {", put: "	for at != nil && at.since.IsZero() {",
			pkg: "dispatch", test: "TestTheOldestAnswerIsMissedFirst$",
		},
		{
			name: "answers-make-no-room", breaks: "a unit whose records are answered out of order stands still behind one that fails, for as long as that is held",
			file: "dispatch/later.go",
			find: "				e.relieve(now)\n", put: "",
			pkg: "dispatch", test: "TestAnswersOutOfOrderMakeRoom$",
		},
		{
			name: "answer-concluded-twice", breaks: "an answer that comes amid the end of its unit gives the places back twice that are held for it",
			file: "dispatch/later.go",
			find: "		if l.end(errLost) && l.after != nil {\n", put: "		if l.end(errLost); l.after != nil {\n",
			pkg: "dispatch", test: "TestAnAnswerThatIsGivenAmidTheEndIsConcludedOnce$",
		},
		{
			name: "answer-behind-an-error", breaks: "who answers for a parked record whose handler has failed believes that it counts",
			file: "dispatch/later.go",
			find: "	case err != nil:\n		l.end(errSaid)\n		return err\n	}\n	answer", put: "	case err != nil:\n		return err\n	}\n	answer",
			pkg: "dispatch", test: "TestWhoWaitedForAnErrorTakesNoOtherAnswer$",
		},
		{
			name: "batch-deaf-to-a-cancellation", breaks: "a partition that is lost is not let go of while one of its messages waits for others",
			file: "consumer/batches.go",
			find: "	case <-first.ctx.Done():\n	}\n}", put: "	}\n}",
			pkg: "consumer", test: "TestACancelledAttemptEndsTheWaitAndTheCallOfItsBatch$",
		},
		{
			name: "call-deaf-to-the-second", breaks: "the call of a batch is not told that an attempt of it was cancelled, but of the first",
			file: "consumer/batches.go",
			find: "func() { cancel(context.Cause(other)) })", put: "func() { _ = cancel })",
			pkg: "consumer", test: "TestACancelledAttemptEndsTheWaitAndTheCallOfItsBatch$",
		},
		{
			name: "answer-in-a-lost-handler", breaks: "who answers while the handler of a lost record still runs believes that it counts",
			file: "dispatch/later.go",
			find: "		if l.lost != nil && l.lost() {\n", put: "		if false {\n",
			pkg: dispatch, test: "TestAnAnswerBeforeTheReturnOfALostHandlerIsTold$",
		},
		{
			name: "answer-in-a-lost-redelivery", breaks: "who answers for a parked record that is somebody else's believes that it counts, while the handler runs",
			file: "subscription/breaker.go",
			find: "		r.Within(ctx)\n", put: "",
			pkg: "subscription", test: "TestAnAnswerForAParkedRecordOfALostShardIsTold$",
		},
		{
			name: "full-token-kept", breaks: "a message that waits for others is called with none, as the batch before it was full",
			file: "consumer/batches.go",
			find: "	b.gathering = false\n	select {\n	case <-b.full:\n	default:\n	}\n", put: "	b.gathering = false\n",
			pkg: "consumer", test: "TestOneBatchThatWasFullMakesNoOtherFull$",
		},
	}
}
