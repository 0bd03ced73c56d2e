package main

// outageMutants are bugs of how an outage is told from records that fail.
func outageMutants() []mutant {
	const (
		breaker = "subscription/breaker.go"
		dist    = "dispatch"
		sub     = "subscription"
	)
	return []mutant{
		{
			name: "breaker-ignored", breaks: "an outage spends the attempts of all records, and makes dead letters of them",
			file: breaker,
			find: "		b.heed(now, err)\n		return true\n", put: "		b.heed(now, err)\n		return false\n",
			pkg: sub, test: "TestWhileItIsOpenNoAttemptCountsButOneWithAnAnswer$",
		},
		{
			name: "breaker-never-opens", breaks: "an outage is never told from records that fail",
			file: breaker,
			find: "		s.setPaused(heldBack, true)\n", put: "		s.setPaused(heldBack, false)\n",
			pkg: ".", test: "TestAnOutageCostsNoRecordItsAttempts$",
		},
		{
			name: "breaker-by-one-key", breaks: "one key that never gets an answer holds back all others",
			file: breaker,
			find: "	outageKeysInTime = 3\n", put: "	outageKeysInTime = 1\n",
			pkg: sub, test: "TestAnOutageIsWhatSeveralKeysTellWithNoOtherAnswerAmongThem$",
		},
		{
			name: "breaker-counts-failures-only", breaks: "failing keys among sound ones are taken for an outage",
			file: breaker,
			find: "		clear(b.failing)\n		b.calm.Store(true)\n", put: "		b.calm.Store(true)\n",
			pkg: sub, test: "TestAnOutageIsWhatSeveralKeysTellWithNoOtherAnswerAmongThem$",
		},
		{
			name: "breaker-counts-attempts-again", breaks: "what is tried again and again is taken for an outage",
			file: breaker,
			find: "	case !first && !IsUnreached(err):\n", put: "	case !first && line == 0:\n",
			pkg: sub, test: "TestAnOutageIsWhatSeveralKeysTellWithNoOtherAnswerAmongThem$",
		},
		{
			name: "unreached-by-many-keys", breaks: "an endpoint that is not there costs the records of two keys all their attempts",
			file: breaker,
			find: "!IsUnreached(err) && (n <", put: "(n <",
			pkg: sub, test: "TestAnOutageIsWhatSeveralKeysTellWithNoOtherAnswerAmongThem$",
		},
		{
			name: "no-connection-is-no-answer", breaks: "an endpoint that is not there costs the records of two keys all their attempts",
			file: "push/answer.go",
			find: "op.Op == \"dial\" {", put: "op.Op == \"read\" {",
			pkg: "push", test: "TestAnEndpointThatIsNotThereIsNoRecordsFault$",
		},
		{
			name: "breaker-closed-by-an-old-answer", breaks: "a slow answer of before an outage ends the waiting for it",
			file: breaker,
			find: "		if at == b.period.Load() {", put: "		if at <= b.period.Load() {",
			pkg: sub, test: "TestAnAnswerOfBeforeTheOutageDoesNotEndIt$",
		},
		{
			name: "breaker-tries-many", breaks: "an endpoint that hangs gets one request a second, without end",
			file: breaker,
			find: "(b.probes == 0 || b.probes", put: "(b.probes >= 0 || b.probes",
			pkg: sub, test: "TestOneAtATimeIsTriedAndNotBeforeTheEndpointWantsIt$",
		},
		{
			name: "breaker-heeds-no-wait", breaks: "an endpoint that asks for time in an outage gets none",
			file: breaker,
			find: "	if now.After(b.asked) && (", put: "	if !now.IsZero() && (",
			pkg: sub, test: "TestOneAtATimeIsTriedAndNotBeforeTheEndpointWantsIt$",
		},
		{
			name: "breaker-overrules-a-pause", breaks: "a subscription that is paused delivers in an outage",
			file: "subscription/pause.go",
			find: "	if s.paused != heldBack || ", put: "	if s.paused == 0 || ",
			pkg: sub, test: "TestOneAtATimeIsTriedAndNotBeforeTheEndpointWantsIt$",
		},
		{
			name: "parked-attempt-counted-in-an-outage", breaks: "what is parked loses its attempts to an outage",
			file: "subscription/shard.go",
			find: "	if errors.As(err, new(spared)) {\n", put: "	if err == nil {\n",
			pkg: ".", test: "TestWhatIsParkedLosesNoAttemptInAnOutage$",
		},
		{
			name: "same-key-tried-each-time", breaks: "an outage goes on while the one record that is tried fails for itself",
			file: "subscription/core/pump.go",
			find: "		it.due = max(it.due, due)\n", put: "		it.due = min(it.due, due)\n",
			pkg: "subscription/core", test: "TestWhatIsSparedHasItsTurnAfterTheOthers$",
		},
		{
			name: "uncounted-attempt-counted", breaks: "an attempt that counts for nothing brings a record nearer to its end",
			file: "dispatch/settle.go",
			find: "		e.sched.pushBack(n)\n", put: "			e.fail(n, err, now)\n",
			pkg: dist, test: "TestAnAttemptThatDoesNotCountLeavesTheRecordAsItWas$",
		},
		{
			name: "uncounted-goes-first", breaks: "of an engine that is paused the same record is tried each time",
			file: "dispatch/settle.go",
			find: "		e.sched.pushBack(n)\n", put: "		e.sched.pushFront(n)\n",
			pkg: dist, test: "TestOfAPausedEngineOneRecordIsTriedAtATimeOfAnotherKeyEachTime$",
		},
		{
			name: "refusal-to-take-over-uncounted", breaks: "who takes records over is asked again without a pause",
			file: "dispatch/settle.go",
			find: "u.Uncounted() && (n.fail == nil || n.fail.why == \"\")", put: "u.Uncounted()",
			pkg: dist, test: "TestAnAttemptThatDoesNotCountKeepsTheFailuresOfBefore$",
		},
		{
			name: "tries-all-at-once", breaks: "one look in an outage spends a request for each record",
			file: "dispatch/worker.go",
			find: "		limit, e.one = 1, false\n", put: "		limit = 1\n",
			pkg: dist, test: "TestOfAPausedEngineOneRecordIsTriedAtATimeOfAnotherKeyEachTime$",
		},
		{
			name: "overload-is-the-records-fault", breaks: "an endpoint that is overloaded makes dead letters of all that comes",
			file: "push/answer.go",
			find: "		if overloaded(code) {\n", put: "		if code == 0 {\n",
			pkg: "push", test: "TestWhatAnAnswerMeans$",
		},
		{
			name: "silence-is-the-records-fault", breaks: "an endpoint that is down makes dead letters of all that comes",
			file: "push/answer.go",
			find: "	return ringfence.Outage(failure{err})\n", put: "	return failure{err}\n",
			pkg: "push", test: "TestGarbageIsShownQuotedAndCut$",
		},
	}
}
