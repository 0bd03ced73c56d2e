package main

// retireMutants are bugs in what removes storage topics that nobody needs any more.
func retireMutants() []mutant {
	return []mutant{
		{
			name: "retires-what-has-records", breaks: "records that are kept go with a storage topic that is retired",
			file: "topic/retire.go",
			find: "		case len(recs) > 0:\n", put: "		case len(recs) > 0 && next < at:\n",
			pkg: "topic", test: "TestOnlyWhatCanDeliverNothingIsRetired$",
		},
		{
			name: "retires-over-a-group", breaks: "a group that was told that its records are gone is carried over them in silence",
			file: "topic/retire.go",
			find: "		case at >= 0:\n", put: "		case at >= 0 && at > end:\n",
			pkg: "topic", test: "TestOnlyWhatCanDeliverNothingIsRetired$",
		},
		{
			name: "retires-in-any-life", breaks: "who was stopped in a retirement lets a group of the next topic skip its first records",
			file: "topic/retire.go",
			find: "registry.Check{Key: prefix + doc.Name, Version: version})", put: "registry.Check{Key: prefix + doc.Name + \"/none\"})",
			pkg: "topic", test: "TestARetirementOfAnEarlierLifeChangesNothing$",
		},
		{
			name: "half-retired-for-good", breaks: "what a retirement that was cut off leaves behind stays until somebody retires again",
			file: "topic/grow.go",
			find: "	if err == nil && doc.Clearing() {\n", put: "	if err == nil && doc.Clearing() && doc.Switching {\n",
			pkg: "topic", test: "TestAFollowerFinishesARetirement$",
		},
		{
			name: "sleeper-finds-no-topic", breaks: "a producer that slept through a retirement is told that its topic was deleted",
			file: "topic/move.go",
			find: "errors.Is(err, fault.Sealed) || errors.Is(err, fault.NotFound)", put: "errors.Is(err, fault.Sealed)",
			pkg: "topic", test: "TestAProducerThatSleptThroughARetirementGoesOn$",
		},
		{
			name: "forgotten-home-is-sealed", breaks: "an idempotent producer is told that a message is stored nowhere, and nobody knows",
			file: "topic/idempotent.go",
			find: "	case doc.Storage[m.home].Retired:\n		return 0, m.forgotten()\n",
			put:  "	case doc.Storage[m.home].Retired:\n		return 0, fault.Sealed\n",
			pkg:  "topic", test: "TestAProducerThatSleptThroughARetirementGoesOn$",
		},
		{
			name: "retired-units-begin-again", breaks: "a member that has not heard of a retirement stops all that comes after",
			file: "group/core/layout.go",
			find: " || passed && v.Checkpoint == nil", put: "",
			pkg: "group/core", test: "TestRetiredUnitsStayFinishedForWhoHasNotHeardOfIt$",
		},
		{
			name: "seek-to-what-is-gone", breaks: "a seek that was stopped says that the group is at records that went meanwhile",
			file: "consumer/seek.go",
			find: "	return infos, stillThere(ctx, t, infos)\n", put: "	return infos, nil\n",
			pkg: ".", test: "TestASeekThatWasStoppedDoesNotLeadToWhatIsGone$",
		},
		{
			name: "seek-by-an-old-definition", breaks: "a seek that was stopped takes a group back into units that are retired",
			file: "consumer/seek.go",
			find: "registry.Txn{Checks: []registry.Check{unchanged}}", put: "registry.Txn{}",
			pkg: ".", test: "TestASeekThatWasStoppedDoesNotLeadToWhatIsGone$",
		},
	}
}
