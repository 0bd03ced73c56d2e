package main

// toldMutants are bugs of what owners of shards tell people in their checkpoints.
func toldMutants() []mutant {
	const sees = "TestEverybodySeesWhereDeliveriesAreHeldBack$"
	return []mutant{
		{
			name: "told-without-progress-never", breaks: "describe does not know of an outage in which nothing was finished yet",
			file: "consumer/progress.go",
			find: "		at = p.engine.Progress().Positions //", put: "		_ = p.engine.Progress().Positions //",
			pkg: "consumer", test: "TestAUnitThatHasFinishedNothingTellsPeople$",
		},
		{
			name: "told-with-progress-only", breaks: "describe tells of an outage when it is over, as nothing moves in it",
			file: "consumer/progress.go",
			find: "from != p.last.From || told != p.last.Deliveries {", put: "from != p.last.From {",
			pkg: "consumer", test: "TestAUnitThatHasFinishedNothingTellsPeople$",
		},
		{
			name: "told-and-not-collected", breaks: "what owners tell without progress is not stored",
			file: "group/run.go",
			find: "p.From != u.from || p.Deliveries != u.told || ", put: "p.From != u.from || ",
			pkg: ".", test: "TestEverybodySeesAnOutageWhereNothingMoves$",
		},
		{
			name: "told-and-not-stored", breaks: "what owners tell without progress is passed over by the protocol",
			file: "group/core/progress.go",
			find: "if !further && last.Deliveries == c.Deliveries {", put: "if !further {",
			pkg: ".", test: "TestEverybodySeesAnOutageWhereNothingMoves$",
		},
		{
			name: "told-as-progress", breaks: "a unit whose handlers hang never comes to another member, as its worker tells how many attempts it makes",
			file: "group/core/progress.go",
			find: "	if further { //", put: "	if further || true { //",
			pkg: "group/core", test: "TestWhatIsToldToPeopleIsNoProgress$",
		},
		{
			name: "told-by-the-dead", breaks: "describe shows the outage of a member that is gone",
			file: "group/describe.go",
			find: "if c := s.Checkpoint; lives && c != nil && ", put: "if c := s.Checkpoint; (lives || true) && c != nil && ",
			pkg: "group", test: "TestOnlyWhatALiveOwnerTellsIsBelieved$",
		},
		{
			name: "told-by-an-earlier-owner", breaks: "describe shows the outage of who had the shard before",
			file: "group/describe.go",
			find: " && c.Epoch == s.Owner.Epoch {\n		return c.Deliveries", put: " {\n		return c.Deliveries",
			pkg: "group", test: "TestOnlyWhatALiveOwnerTellsIsBelieved$",
		},
		{
			name: "told-as-it-was-said", breaks: "a checkpoint holds what an endpoint said, of any length",
			file: "subscription/told.go",
			find: "if len(said) <= registry.MaxWhyBytes {", put: "if len(said) <= 1<<20 {",
			pkg: ".", test: sees,
		},
		{
			name: "told-rate-lost-in-an-outage", breaks: "describe says that there are no attempts, as an outage has just begun",
			file: "subscription/told.go",
			find: "		told.Rate = t.last.Rate\n", put: "		_ = t.last.Rate\n",
			pkg: "subscription", test: "TestTheRateThatWasToldOutlastsTheOpeningOfTheBreaker$",
		},
		{
			name: "told-again-and-again", breaks: "an outage costs a store call a second for each shard",
			file: "subscription/told.go",
			find: "if told.Rate == 0 && t.last.Same(&told) {", put: "if told.Rate == 0 && false {",
			pkg: ".", test: sees,
		},
		{
			name: "told-no-next-try", breaks: "describe says that an endpoint is asked each second which wants to be left alone",
			file: "subscription/told.go",
			find: "if b.asked.Sub(now) > probeEvery {", put: "if false {",
			pkg: ".", test: "TestEverybodySeesWhenAnOutageIsLookedAtAgain$",
		},
		{
			name: "told-use-of-everything", breaks: "what is used of limits counts those attempts too that have ended",
			file: "subscription/slots.go",
			find: "u.running.Add(-1)", put: "u.running.Add(0)",
			pkg: ".", test: "TestEverybodySeesWhatIsUsedOfLimits$",
		},
		{
			name: "told-use-since-ever", breaks: "the rate that is used grows with all that was ever begun",
			file: "subscription/told.go",
			find: "t.at, t.was = now, begun", put: "t.at = now",
			pkg: ".", test: "TestEverybodySeesWhatIsUsedOfLimits$",
		},
		{
			name: "run-beside-the-limits", breaks: "subscription run delivers past the limits of its endpoint that it was given",
			file: "internal/cli/serve.go",
			find: "opts.Target, end, err = push.Share(", put: "_, end, err = push.Share(",
			pkg: "internal/cli", test: "TestScripts/serve$",
		},
		{
			name: "share-never-counted-again", breaks: "who delivers one subscription keeps the part of an endpoint's limits that it began with",
			file: "push/share.go",
			find: "			s.count(all)\n", put: "",
			pkg: "push", test: "TestWhoDeliversOneSubscriptionHasItsPartOfTheEndpoint$",
		},
		{
			name: "told-damage-keeps-the-checkpoint", breaks: "a checkpoint is stored that nobody reads, as what it tells people is no number",
			file: "registry/protocol.go",
			find: "		c.Deliveries = nil\n", put: "",
			pkg: "registry", test: "TestWhatCannotBeToldKeepsNoCheckpointBack$",
		},
		{
			name: "told-at-the-cost-of-ranges", breaks: "what an endpoint says, when it is too much, has the next owner repeat what was finished",
			file: "registry/protocol.go",
			find: "	if !fits() && c.Deliveries != nil {\n", put: "	if !fits() && c.Deliveries != nil {\n		c.Positions = []Position{{Next: c.Positions[0].Next}}\n",
			pkg: "registry", test: "TestWhatCannotBeToldKeepsNoCheckpointBack$",
		},
		{
			name: "told-damage-believed", breaks: "what a stranger wrote about deliveries is shown",
			file: "registry/decode.go",
			find: "	if err := c.Deliveries.check(); err != nil {", put: "	if err := c.Deliveries.check(); err != nil && false {",
			pkg: "registry", test: "TestWhatIsToldOfDeliveriesIsReadOrRefused$",
		},
	}
}
