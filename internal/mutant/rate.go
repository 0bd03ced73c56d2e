package main

// rateMutants are bugs of how the members of a subscription share its rate and its concurrency.
func rateMutants() []mutant {
	const sub, together = "subscription", "TestTheProcessesTogetherKeepToTheRateWhoeverHasWhat$"
	return []mutant{
		{
			name: "rate-for-each-process", breaks: "each process takes the whole rate of a subscription",
			file: "subscription/throttle.go",
			find: "switch mine := t.rate * t.part; {", put: "switch mine := t.rate; {",
			pkg: sub, test: together,
		},
		{
			name: "start-is-a-burst", breaks: "what was not used for an hour is delivered at once",
			file: "subscription/throttle.go",
			find: "max(1, t.local()*burstTime.Seconds()))", put: "max(1, t.local()*time.Hour.Seconds()))",
			pkg: sub, test: "TestABurstIsBounded$",
		},
		{
			name: "slot-after-a-pause", breaks: "an attempt begins in a pause because it had waited before",
			file: "subscription/slots.go",
			find: "(waited || waitedThere) && s.idle() {", put: "(waited || waitedThere) && false {",
			pkg: sub, test: "TestAnAttemptThatWaitedForItsTurnIsNoneWhenNothingIsToBegin$",
		},
		{
			name: "drain-waits-for-the-endpoint", breaks: "a shard moves after ten seconds and with repeats, as its records wait for their turn at an endpoint",
			file: "subscription/slots.go",
			find: "	last := dispatch.Last(ctx)\n", put: "	last := (<-chan struct{})(nil)\n",
			pkg: ".", test: "TestADrainDoesNotWaitForThoseThatTheEndpointHasNoPlaceFor$",
		},
		{
			name: "time-of-a-handler-that-waits", breaks: "a shard is given up again and again while others keep its endpoint busy",
			file: "subscription/slots.go",
			find: "		late = timer.C\n", put: "		_ = timer.C\n",
			pkg: ".", test: "TestAWaitForTheEndpointIsNoTimeOfTheHandler$",
		},
		{
			name: "endpoint-place-of-a-lost-answer", breaks: "a handler that never answers takes a place at the endpoint, and a probe of the breaker, with it for ever",
			file: "dispatch/engine.go",
			find: "			e.disown()\n", put: "",
			pkg: ".", test: "TestAnAnswerThatNeverComesKeepsNoPlaceAtTheEndpoint$",
		},
		{
			name: "tokens-without-a-slot", breaks: "a shard whose slots are taken has tokens that others wait for, and delivers beyond the rate once a slot is free",
			file: "subscription/pause.go",
			find: "	if s.slots.taken() || s.cfg.Target.taken() {\n", put: "	if s.slots.taken() && s.cfg.Target.taken() {\n",
			pkg: sub, test: "TestWhatIsParkedSavesNoTokensUpWhileItHasNoSlot$",
		},
		{
			name: "tokens-of-none", breaks: "a parked record that is not attempted after all keeps the token that it was given",
			file: "subscription/throttle.go",
			find: "		s.unspent(parked)\n", put: "",
			pkg: sub, test: "TestATokenOfTheEndpointIsNoneOfTheSubscription$",
		},
		{
			name: "endpoint-place-of-who-comes-back", breaks: "a handler that comes back when its shard is somebody else's, and never answers, takes a place at the endpoint with it for ever",
			file: "dispatch/worker.go",
			find: "	if abandoned { //", put: "	if abandoned && w == nil { //",
			pkg: "dispatch", test: "TestAHandlerThatOutlastsItsEngineOwesNothing$",
		},
		{
			name: "exit-of-a-parked-record", breaks: "a handler that ends its goroutine over a parked record holds its key back until the shard moves",
			file: "subscription/shard.go",
			find: "		if asked {\n", put: "		if asked && err != errExited {\n",
			pkg: sub, test: "TestAHandlerOfAParkedRecordThatExitsHasFailed$",
		},
		{
			name: "parked-answer-awaited-for-ever", breaks: "a parked record whose answer is lost holds its key back for ever, whatever time handlers have",
			file: "subscription/delivery/shards.go",
			find: "AnswerTimeout: w.opts.HandlerTimeout, ", put: "",
			pkg: ".", test: "TestAnAnswerForAParkedRecordThatNeverComesGivesTheShardUp$",
		},
		{
			name: "ease-below-what-is-accepted", breaks: "a receiver that refuses some is asked for less and less",
			file: "subscription/ease.go",
			find: "most := 2*float64(e.accepted)", put: "most := 0.9*float64(e.accepted)",
			pkg: sub, test: "TestAReceiverThatRefusesMostIsAskedForLess$",
		},
		{
			name: "ease-for-ever", breaks: "a receiver that accepts all again keeps its bound",
			file: "subscription/ease.go",
			find: "case e.refused == 0 || e.refused <= e.accepted &&", put: "case e.refused < 0 && e.refused <= e.accepted &&",
			pkg: sub, test: "TestAReceiverThatRefusesMostIsAskedForLess$",
		},
		{
			name: "ease-above-the-rate", breaks: "a receiver that refuses most is asked for more than the rate of the subscription",
			file: "subscription/throttle.go",
			find: "return min(mine, eased)", put: "return max(mine, eased)",
			pkg: sub, test: "TestARateStaysTheMostWhereMostIsRefused$",
		},
		{
			name: "ease-after-an-outage", breaks: "after an outage the attempts that failed in it keep the rate down",
			file: "subscription/breaker.go",
			find: "			t.outage()", put: "			t.answered(true)",
			pkg: sub, test: "TestAnOutageIsForgottenWithItsAttempts$",
		},
		{
			name: "endpoint-of-one-subscription", breaks: "each subscription takes the whole rate of its endpoint",
			file: "subscription/target.go",
			find: "		t.throttle.setRate(t.rate / t.among)\n", put: "		t.throttle.setRate(t.rate)\n",
			pkg: sub, test: "TestAllSubscriptionsTogetherKeepToTheRateOfTheirEndpoint$",
		},
		{
			name: "endpoint-slots-of-one-daemon", breaks: "each daemon has as many requests under way as all may have together",
			file: "subscription/target.go",
			find: "int(t.most*part/t.among+1e-9)", put: "int(t.most)",
			pkg: sub, test: "TestAllSubscriptionsTogetherKeepToTheConcurrencyOfTheirEndpoint$",
		},
		{
			name: "token-lost-at-the-endpoint", breaks: "a subscription spends its rate on attempts that its endpoint has no room for",
			file: "subscription/throttle.go",
			find: "		own.refund()\n		return false", put: "		return false",
			pkg: sub, test: "TestATokenIsNotLostWhenTheEndpointHasNone$",
		},
		{
			name: "endpoint-without-its-slots", breaks: "a server gets more requests at once than it may",
			file: "push/serve.go",
			find: "	opts.Target = s.target(d)\n", put: "",
			pkg: "push", test: "TestAnEndpointGetsNoMoreAtOnceThanItMay$",
		},
		{
			name: "ease-for-one-that-is-refused", breaks: "a receiver that refuses one attempt now and then gets a few a second when many come",
			file: "subscription/ease.go",
			find: "(e.refused < easeRefused || e.refused <= e.accepted)", put: "(e.refused <= e.accepted)",
			pkg: sub, test: "TestALoadThatRisesIsNotBoundByTheFewThatAreRefused$",
		},
		{
			name: "ease-for-one-key", breaks: "one key that is refused for ever bounds what is tried of all others",
			file: "subscription/ease.go",
			find: "(e.refused < easeRefused || e.refused <= e.accepted)", put: "(e.refused < easeRefused)",
			pkg: sub, test: "TestALoadThatRisesIsNotBoundByTheFewThatAreRefused$",
		},
		{
			name: "nine-tenths-of-an-endpoint", breaks: "an endpoint gets less at once than it may, as tenths do not sum up to one",
			file: "subscription/target.go",
			find: "+1e-9", put: "",
			pkg: sub, test: "TestAllPartsTogetherAreAllThatAnEndpointTakes$",
		},
		{
			name: "endpoint-of-no-subscription", breaks: "an endpoint has no limits any more when its last subscription is paused",
			file: "subscription/target.go",
			find: "float64(max(1, n))", put: "float64(n)",
			pkg: sub, test: "TestAnEndpointWithoutSubscriptionsKeepsItsLimits$",
		},
		{
			name: "rate-for-what-is-parked", breaks: "what fails for ever takes a low rate for itself, and nothing new is delivered",
			file: "subscription/throttle.go",
			find: "!t.bounded() || !t.parked && t.tokens < 2 {", put: "!t.bounded() {",
			pkg: ".", test: "TestWhatIsParkedAndWhatIsNewTakeTurnsAtARate$",
		},
		{
			name: "rate-for-what-is-new", breaks: "what was parked waits for as long as there are new records, at a low rate",
			file: "subscription/throttle.go",
			find: "	if t.parked = !t.parked; !t.bounded()", put: "	if t.parked = !t.parked; t.bounded()",
			pkg: ".", test: "TestWhatIsParkedAndWhatIsNewTakeTurnsAtARate$",
		},
		{
			name: "token-of-the-other", breaks: "a parked record begins beyond the rate of its subscription by a token of its endpoint",
			file: "subscription/throttle.go",
			find: "	if why == crowded {\n		return &s.paidThere", put: "	if why == 0 {\n		return &s.paidThere",
			pkg: sub, test: "TestATokenOfTheEndpointIsNoneOfTheSubscription$",
		},
		{
			name: "slot-of-who-gave-up", breaks: "a slot that comes to an attempt which is cancelled that moment is lost for good",
			file: "subscription/slots.go",
			find: "		l.used--\n		l.pass()\n	}\n	return nil, true", put: "		l.pass()\n	}\n	return nil, true",
			pkg: sub, test: "TestASlotThatComesToWhoGivesUpIsNotLost$",
		},
		{
			name: "slot-lost-at-the-endpoint", breaks: "an attempt that ends while it waits for its endpoint takes a slot of its subscription along",
			file: "subscription/slots.go",
			find: "		own.give()\n		s.unspent(parked)\n", put: "		s.unspent(parked)\n",
			pkg: sub, test: "TestWhoGivesUpAtTheEndpointKeepsNoSlot$",
		},
		{
			name: "paid-in-another-pause", breaks: "a parked record is tried in a pause, as its token was there",
			file: "subscription/throttle.go",
			find: "	if s.paused != why || !s.tryParked() {", put: "	if !s.tryParked() {",
			pkg: "subscription", test: "TestNoParkedRecordIsPaidForInAnotherPause$",
		},
	}
}
