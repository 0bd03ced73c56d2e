package main

// proofMutants are bugs of what the proofs themselves stand on.
func proofMutants() []mutant {
	const judge, inFlight = "internal/history/owner.go", "TestOnlyWhatWasInFlightExcusesADuplicate$"
	return []mutant{
		{
			name: "any-epoch-given-again-is-excused", breaks: "the judge says nothing when an epoch that the store forgot is another owner's",
			file: judge,
			find: "old.owned.Epoch == e.Epoch && !e.Crossed {", put: "old.owned.Epoch == e.Epoch && e.Handoff && !e.Crossed {",
			pkg: "internal/history", test: "TestAForgottenEpochIsGivenAgainOnlyToWhoWasOnTheWay$",
		},
		{
			name: "done-was-in-flight", breaks: "the judge excuses the repetition of a record whose end was stored",
			file: judge,
			find: "			if !checkpoint.has(at, o) {\n", put: "			if true {\n",
			pkg: "internal/history", test: inFlight,
		},
		{
			name: "done-before-a-rollback-was-in-flight", breaks: "as done-was-in-flight, when a store goes back",
			file: judge,
			find: "			if !now.has(at, o) {\n", put: "			if true {\n",
			pkg: "internal/history", test: inFlight,
		},
		{
			name: "in-flight-at-every-owner", breaks: "the judge excuses a record that was in flight once, before a seek, at each takeover again",
			file: judge,
			find: " && !old.replaced {\n", put: " {\n",
			pkg: "internal/history", test: inFlight,
		},
		{
			name: "the-dead-keep-storing", breaks: "the goroutines of a killed process change the pages of the living, and sound code fails the crash matrix",
			file: "internal/vfs/mem.go",
			find: "		m.detach()\n", put: "		_ = m\n",
			pkg: "internal/vfs", test: "TestStoresOfAKilledProcessStayItsOwn$",
		},
	}
}
