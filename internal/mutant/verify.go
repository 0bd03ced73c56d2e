package main

// verifyMutants are bugs of the judge and of what "ringfence verify" makes of its judgement.
func verifyMutants() []mutant {
	return []mutant{
		{
			name: "judge-forgives-what-never-arrived", breaks: "the demo of deliveries says that every promise was kept when a record never came",
			file: "internal/history/arrival.go",
			find: "			if !came[Arrival{key, n}] {", put: "			if !came[Arrival{key, n}] && n < 0 {",
			pkg: "internal/history", test: "TestWhatArrivesIsJudged$",
		},
		{
			name: "judge-of-arrivals-looks-at-no-order", breaks: "a record that came before the one in front of it breaks no promise",
			file: "internal/history/arrival.go",
			find: "		case t.Number > at:\n", put: "		case t.Number > at+1<<20:\n",
			pkg: "internal/history", test: "TestWhatArrivesIsJudged$",
		},
		{
			name: "judge-counts-no-dead-letters", breaks: "a second dead letter of one record breaks no promise",
			file: "internal/history/arrival.go",
			find: "!slices.Equal(got, want) {", put: "!slices.Equal(got, want) && len(got) == 0 {",
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
	}
}
