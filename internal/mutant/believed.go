package main

// believedMutants are bugs that let what a stranger wrote into a registry or a topic be believed further
// than one of ours could have meant it.
func believedMutants() []mutant {
	const dispatch = "dispatch"
	return []mutant{
		{
			name: "topics-by-name-alone", breaks: "a definition that a stranger wrote has users' topics deleted, and written to",
			file: "topic/parts.go",
			find: "	if p.owner != \"\" && d.Internal == p.owner {\n", put: "	if p.owner != \"\" {\n",
			pkg: ".", test: "TestASubscriptionTouchesNoTopicThatOnlyItsDefinitionNames$",
		},
		{
			name: "topics-opened-by-name", breaks: "a definition that a stranger wrote has fences and orders written into users' topics",
			file: "subscription/parts.go",
			find: "			err = c.parts(d.Name).Check(t.Document())\n", put: "			err = error(nil)\n",
			pkg: ".", test: "TestASubscriptionTouchesNoTopicThatOnlyItsDefinitionNames$",
		},
		{
			name: "topics-by-owner-alone", breaks: "a topic of which somebody says that it is a subscription's goes with what is left of that",
			file: "subscription/parts.go",
			find: "	return set, isSetID(set) && (", put: "	return set, set != rest && (",
			pkg: ".", test: "TestWhatIsLeftOfASubscriptionIsKnownByItsNameToo$",
		},
		{
			name: "more-shards-than-partitions", breaks: "a definition that a stranger wrote has shards that nothing keeps the records of",
			file: "subscription/parts.go",
			find: "	if n := t.Storage[0].Partitions; n != d.Set().Shards {\n", put: "	if n := t.Storage[0].Partitions; n < 1 {\n",
			pkg: ".", test: "TestASetOfAnotherSizeThanItsTopicsIsDamaged$",
		},
		{
			name: "subscription-of-a-subscription", breaks: "what a subscription writes down is delivered by another, or by itself, for ever",
			file: "subscription/parts.go",
			find: "	if err == nil && main.Internal != \"\" {\n", put: "	if err == nil && main.Internal == name {\n",
			pkg: ".", test: "TestWhatBelongsToASubscriptionIsNotDeliveredByOne$",
		},
		{
			name: "delivers-what-a-definition-says", breaks: "a member runs a definition whose topic nobody would have let it have",
			file: "subscribe.go",
			find: "		err = c.subscriptions().CheckTopic(ctx, j.Definition)\n", put: "		err = error(nil)\n",
			pkg: ".", test: "TestASetOfAnotherSizeThanTheMainTopicIsDamaged$",
		},
		{
			name: "hold-runs-over", breaks: "a hold far below nothing is one of a thousand years",
			file: "subscription/document.go",
			find: "	demand(d.Retry.HoldMS >= notHeld,", put: "	demand(d.Retry.HoldMS >= notHeld || d.Retry.HoldMS < 0,",
			pkg: "subscription", test: "TestADefinitionThatNobodyCanHaveMadeIsRefused$",
		},
		{
			name: "times-of-no-calendar", breaks: "a time in a definition has no form that programs read",
			file: "subscription/decode.go",
			find: "ms >= 0 && ms <= lastMillis", put: "ms >= 0",
			pkg: "subscription", test: "TestADefinitionThatNobodyCanHaveMadeIsRefused$",
		},
		{
			name: "parked-until-9999", breaks: "a record in a journal keeps its key back for thousands of years",
			file: "subscription/core/state.go",
			find: "		due = min(due, s.cfg.Now+s.cfg.MaxPause)\n", put: "		due = min(due, s.cfg.Now+s.cfg.MaxPause<<30)\n",
			pkg: "subscription/core", test: "TestWhatAJournalSaysIsBoundByThePolicy$",
		},
		{
			name: "attempts-of-no-policy", breaks: "the next attempt at a record of a journal is one too many to be written down",
			file: "subscription/core/state.go",
			find: "		most = min(most, s.cfg.MaxAttempts+1)\n", put: "		most = max(most, s.cfg.MaxAttempts+1)\n",
			pkg: "subscription/core", test: "TestWhatAJournalSaysIsBoundByThePolicy$",
		},
		{
			name: "held-for-years", breaks: "a checkpoint keeps a record back for years",
			file: "dispatch/recall.go",
			find: "min(f.Pause, e.cfg.Retry.Longest().Milliseconds())", put: "min(f.Pause, e.cfg.Retry.Longest().Milliseconds()<<10)",
			pkg: dispatch, test: "TestWhatIsStoredIsBoundByThePolicy$",
		},
		{
			name: "recalled-attempts-run-over", breaks: "the next attempt at a record of a checkpoint makes that one that nobody reads",
			file: "dispatch/recall.go",
			find: "attempts: e.cfg.Retry.made(f.Attempts),", put: "attempts: f.Attempts,",
			pkg: dispatch, test: "TestWhatIsStoredIsBoundByThePolicy$",
		},
		{
			name: "asks-for-years", breaks: "an endpoint's or a handler's error keeps a record back for years",
			file: "dispatch/config.go",
			find: "min(t.RetryAfter(), r.Longest())", put: "t.RetryAfter()",
			pkg: dispatch, test: "TestAnErrorAsksForNoMoreThanTheLongestPause$",
		},
		{
			name: "applied-to-a-subscription", breaks: "a dry run says that a subscription of a subscription would be made",
			file: "internal/apply/plan.go",
			find: "t.Name == name && t.Internal != \"\" {", put: "t.Name == name && t.Internal == name {",
			pkg: "internal/apply", test: "TestATopicOfASubscriptionIsNotDelivered$",
		},
	}
}
