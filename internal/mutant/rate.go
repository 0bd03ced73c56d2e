package main

// rateMutants are bugs of how the members of a subscription share its rate and its concurrency.
func rateMutants() []mutant {
	const sub, together = "subscription", "TestTheProcessesTogetherKeepToTheRateWhoeverHasWhat$"
	return []mutant{
		{
			name: "rate-for-each-process", breaks: "each process takes the whole rate of a subscription",
			file: "subscription/throttle.go",
			find: "{ return t.rate * t.part }", put: "{ return t.rate }",
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
			find: "	if waited && s.idle() {", put: "	if waited && false {",
			pkg: sub, test: "TestAnAttemptThatWaitedForItsTurnIsNoneWhenNothingIsToBegin$",
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
			find: "		own.refund()\n", put: "",
			pkg: sub, test: "TestATokenIsNotLostWhenTheEndpointHasNone$",
		},
		{
			name: "endpoint-without-its-slots", breaks: "a server gets more requests at once than it may",
			file: "push/serve.go",
			find: "	opts.Target = s.target(d)\n", put: "",
			pkg: "push", test: "TestAnEndpointGetsNoMoreAtOnceThanItMay$",
		},
	}
}
