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
	}
}
