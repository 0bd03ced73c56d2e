package main

// verifyMutants are bugs of the judge and of what "ringfence verify" makes of its judgement.
func verifyMutants() []mutant {
	return []mutant{
		{
			name: "judge-forgives-what-never-arrived", breaks: "the demo of deliveries says that every promise was kept when a record never came",
			file: "internal/history/arrival.go",
			find: "		default:\n			r.Lost++\n", put: "		case n >= 0:\n		default:\n			r.Lost++\n",
			pkg: "internal/history", test: "TestWhatArrivesIsJudged$",
		},
		{
			name: "judge-of-arrivals-looks-at-no-order", breaks: "a record that came before the one in front of it breaks no promise",
			file: "internal/history/arrival.go",
			find: "		case t.Number > at:\n", put: "		case t.Number > at+1<<20:\n",
			pkg: "internal/history", test: "TestWhatArrivesIsJudged$",
		},
		{
			name: "judge-of-arrivals-forgives-a-gap", breaks: "a record that was passed and never came breaks no promise when it was not waited for all",
			file: "internal/history/arrival.go",
			find: "		case n < next:\n", put: "		case n < next && !a.Early:\n",
			pkg: "internal/history", test: "TestWhatMayBeOnItsWayIsNotLost$",
		},
		{
			name: "judge-of-arrivals-looks-at-no-place", breaks: "a record that was stored twice, and delivered twice, is one delivered again",
			file: "internal/history/arrival.go",
			find: "again && was != t.Place {", put: "again && was > t.Place && n < 0 {",
			pkg: "internal/history", test: "TestWhatArrivesIsJudged$",
		},
		{
			name: "judge-of-arrivals-is-too-sure", breaks: "a record whose producer was killed before the answer came, and which was delivered, is one that nobody sent",
			file: "internal/history/arrival.go",
			find: "t.Number >= n+a.Unsure[t.Key] {", put: "t.Number >= n {",
			pkg: "internal/history", test: "TestWhatMayBeOnItsWayIsNotLost$",
		},
		{
			name: "verify-judges-no-subscription", breaks: "verify --subscriptions says that every promise was kept whatever the handlers took",
			file: "internal/verify/subscription.go",
			find: "	report := a.Judge()\n", put: "	report := new(history.Report)\n",
			pkg: "internal/verify", test: "TestABrokenDeliveryIsFound$",
		},
		{
			name: "verify-gives-its-clean-up-up", breaks: "a connection that is cut while verify removes its topic leaves the topic behind",
			file: "internal/verify/clear.go",
			find: "		case !Away(err):\n", put: "		default:\n",
			pkg: "internal/verify", test: "TestWhatIsRemovedIsTriedAgainWhileTheStoreIsAway$",
		},
		{
			name: "judge-counts-no-dead-letters", breaks: "a second dead letter of one record breaks no promise",
			file: "internal/history/arrival.go",
			find: "	case poisoned && slices.Equal(got, []int{bad}):\n", put: "	case poisoned && slices.Contains(got, bad):\n",
			pkg: "internal/history", test: "TestWhatArrivesIsJudged$",
		},
		{
			name: "judge-forgives-a-loss", breaks: "verify says that every promise was kept when acknowledged records are missing",
			file: "internal/history/checker.go",
			find: "		if n > 0 {\n			c.report.violate(NotLost", put: "		if n > 1<<40 {\n			c.report.violate(NotLost",
			pkg: "internal/cli", test: "TestScripts$/^verify_loses$",
		},
		{
			name: "verify-ends-well-when-it-should-not", breaks: "verify exits with 0 though a promise was broken",
			file: "internal/verify/result.go",
			find: "		return fmt.Errorf(\"%d times, and", put: "		_ = fmt.Errorf(\"%d times, and",
			pkg: "internal/cli", test: "TestScripts$/^verify_doubles$",
		},
		{
			name: "judge-walks-to-the-last-place", breaks: "verify judges for ever when one acknowledgement named a place far behind all records",
			file: "internal/history/partition.go",
			find: "		if last-first < 2*int64(len(p.pages)) {\n", put: "		if last >= first {\n",
			pkg: "internal/history", test: "TestAPlaceThatCannotBeIsJudgedAtOnce$",
		},
		{
			name: "judge-takes-every-place", breaks: "verify panics when an acknowledgement named a place before the first",
			file: "internal/history/checker.go",
			find: "	if e.Offset < 0 || e.Offset == math.MaxInt64 {\n", put: "	if e.Offset == math.MaxInt64 {\n",
			pkg: "internal/history", test: "TestAPlaceThatCannotBeIsJudgedAtOnce$",
		},
		{
			name: "judge-looks-at-places-only", breaks: "a record that the log stored twice counts as two",
			file: "internal/history/sent.go",
			find: "	case !f.told && (", put: "	case f.denied && (",
			pkg: "internal/history", test: "TestWhatWasSentIsComparedWithWhatIsThere$",
		},
		{
			name: "judge-trusts-the-log-with-the-order", breaks: "a log that stores a key's records the other way round is believed",
			file: "internal/history/sent.go",
			find: "	case e.Sequence < s.high:\n", put: "	case e.Sequence < -s.high:\n",
			pkg: "internal/cli", test: "TestScripts$/^verify_reorders$",
		},
		{
			name: "verify-asks-twice", breaks: "verify ends a process that is leaving, and calls that a death of its own",
			file: "internal/harness/process.go",
			find: "	if p.asked.Swap(true) {", put: "	if p.asked.Swap(true) && p.Ended() && p.ExitCode() == -1 {",
			pkg: "internal/harness", test: "TestOneThatIsLeavingIsNotAskedAgain$",
		},
		{
			name: "measurement-leaves-its-stores", breaks: "a measurement that failed leaves its processes, its stores and its directory behind",
			file: "internal/measure/script.go",
			find: "	for _, undo := range slices.Backward(s.undo) {", put: "	for _, undo := range slices.Backward(s.undo[:0]) {",
			pkg: "internal/measure", test: "TestAScriptEndsAtWhatGoesWrongAndIsUndone$",
		},
		{
			name: "measurement-takes-a-bug-for-a-failure", breaks: "a measurement that panics ends as if it had measured",
			file: "internal/measure/script.go",
			find: "			panic(v)\n", put: "			_ = v\n",
			pkg: "internal/measure", test: "TestABugIsNoFailureOfAScript$",
		},
		{
			name: "judge-has-a-short-memory", breaks: "a call that took seconds on a busy machine makes the histories of a sound run unreadable",
			file: "internal/history/stream.go",
			find: "	return n >= most || n >= fewest && r.late-r.held[0].At > span", put: "	return n >= fewest",
			pkg: "internal/history", test: "TestACallThatTookSecondsIsPutWhereItBegan$",
		},
		{
			name: "verify-repeats-under-another-id", breaks: "the idempotent producers of verify test nothing: what they send again after kill -9 is new to the log",
			file: "internal/verify/producer.go",
			find: "\"%s/%s/%d\", p.Topic, k.name", put: "\"%s/%s/%d\", p.path(), k.name",
			pkg: "internal/verify", test: "TestAnIdempotentProducerGoesOnWhereItWasKilled$",
		},
		{
			name: "verify-insists-on-a-retired-home", breaks: "an idempotent producer of verify ends when the storage topic is retired in which it began, and that counts as a broken promise",
			file: "internal/verify/producer.go",
			find: "	case p.Load.Idempotent && errors.Is(a.err, fault.Forgotten):\n", put: "	case a.n < 0 && errors.Is(a.err, fault.Forgotten):\n",
			pkg: "internal/verify", test: "TestAnIdempotentProducerGoesOnBehindARetiredHome$",
		},
		{
			name: "judge-of-arrivals-counts-from-nowhere", breaks: "a record of a number that none has is one that was taken again",
			file: "internal/history/arrival.go",
			find: "!known || t.Number < 0 ||", put: "!known ||",
			pkg: "internal/history", test: "TestWhatArrivesIsJudged$",
		},
		{
			name: "judge-of-arrivals-counts-twice", breaks: "the record behind a gap counts twice when it is taken again",
			file: "internal/history/arrival.go",
			find: "			next[t.Key] = t.Number + 1\n", put: "			next[t.Key] = t.Number\n",
			pkg: "internal/history", test: "TestWhatIsTakenAgainBehindAGapIsCountedOnce$",
		},
		{
			name: "verify-forgives-the-last-ones", breaks: "the last records of a key never come, and verify says that they are on their way",
			file: "internal/verify/subscription.go",
			find: "Early: !r.result.Complete", put: "Early: r.result.Complete",
			pkg: "internal/verify", test: "TestTheJudgeOfDeliveriesIsToldWhatIsKnown$",
		},
		{
			name: "verify-is-unsure-of-all", breaks: "records that nobody sent break no promise in verify --subscriptions",
			file: "internal/verify/subscription.go",
			find: "a.Unsure[key] = s.acked[key], n-s.acked[key]", put: "a.Unsure[key] = s.acked[key], n",
			pkg: "internal/verify", test: "TestTheJudgeOfDeliveriesIsToldWhatIsKnown$",
		},
		{
			name: "verify-forgets-an-acknowledgement", breaks: "the last acknowledged record of a key is not missed in verify --subscriptions",
			file: "internal/verify/subscription.go",
			find: "				s.acked[e.Key] = max(s.acked[e.Key], n)", put: "				s.acked[e.Key] = min(s.acked[e.Key]+1, n-1)",
			pkg: "internal/verify", test: "TestTheJudgeOfDeliveriesIsToldWhatIsKnown$",
		},
		{
			name: "asked-to-leave-as-it-opens", breaks: "a process that is asked to leave while it opens its stores ended by itself, says the run",
			file: "internal/verify/agent.go",
			find: "	return unlessAsked(ctx, err)\n", put: "	if !errors.Is(err, context.Canceled) {\n		return err\n	}\n	return unlessAsked(ctx, err)\n",
			pkg: "internal/verify", test: "TestAProcessThatIsAskedToLeaveWhileItOpensItsStoresHasNotFailed$",
		},
		{
			name: "verify-waits-for-ever", breaks: "a run waits for ever for a group that does not get on",
			file: "internal/verify/run.go",
			find: "		if time.Since(moved) > patience {\n", put: "		if time.Since(moved) > patience && patience < 0 {\n",
			pkg: "internal/verify", test: "TestARunWaitsForAsLongAsThereIsProgress$",
		},
		{
			name: "verify-deaf-to-progress", breaks: "a run ends in the middle of what is processed",
			file: "internal/verify/run.go",
			find: "		if handled != r.tally.handled || lag != left {\n", put: "		if handled != r.tally.handled && lag != left {\n",
			pkg: "internal/verify", test: "TestARunWaitsForAsLongAsThereIsProgress$",
		},
		{
			name: "verify-complete-without-an-end", breaks: "a run that was cut short counts what nobody had read yet as lost",
			file: "internal/verify/run.go",
			find: "	r.result.Complete = err == nil\n", put: "	r.result.Complete = true\n",
			pkg: "internal/verify", test: "TestOnlyARestThatIsKnownIsJudged$",
		},
		{
			name: "verify-judges-what-is-away", breaks: "what is in a store that is away counts as lost",
			file: "internal/verify/run.go",
			find: "errors.As(err, &stood) && stood.last == nil {", put: "errors.As(err, &stood) {",
			pkg: "internal/verify", test: "TestOnlyARestThatIsKnownIsJudged$",
		},
	}
}
