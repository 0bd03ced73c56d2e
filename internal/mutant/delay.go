package main

// delayMutants are bugs of records that are to be delivered later, of orders about them that are only tried, and
// of how they are counted.
func delayMutants() []mutant {
	const admit = "subscription/admit.go"
	return []mutant{
		{
			name: "dry-run-orders", breaks: "a dry run of an order about dead letters gives it",
			file: "subscription/delivery/letters.go",
			find: "opts != nil && opts.DryRun {", put: "opts != nil && false {",
			pkg: ".", test: "TestADryRunOrdersNothingAboutDeadLetters$",
		},
		{
			name: "delay-ignored", breaks: "a record is delivered before its time",
			file: admit,
			find: "!at.IsZero() {\n			return s.delay", put: "false {\n			return s.delay",
			pkg: ".", test: "TestADelayedRecordIsDeliveredWhenItsTimeHasCome$",
		},
		{
			name: "delay-ends-with-the-longest-pause", breaks: "a record that is delayed by more than a day is delivered after a day",
			file: admit,
			find: "	case !at.IsZero():", put: "	case false:",
			pkg: "subscription", test: "TestADelayIsKeptHoweverLongItIs$",
		},
		{
			name: "delay-is-an-attempt", breaks: "a record that is delayed uses up an attempt by each look, and is given up",
			file: "subscription/shard.go",
			find: "if e := (early{}); errors.As(err, &e) {", put: "if e := (early{}); errors.As(err, &e) && false {",
			pkg: "subscription", test: "TestADelayIsKeptHoweverLongItIs$",
		},
		{
			name: "senseless-delay-is-none", breaks: "a record whose time can't be read is delivered at once, whenever it was meant to be",
			file: "subscription/delay.go",
			find: "		case err != nil:", put: "		case err != nil && false:",
			pkg: ".", test: "TestADelayThatMakesNoSenseIsADeadLetterAtOnce$",
		},
		{
			name: "delay-of-a-lifetime", breaks: "a record waits for years, and its key with it",
			file: "subscription/delay.go",
			find: "		case at.After(now.Add(LongestPause)):", put: "		case false:",
			pkg: ".", test: "TestADelayThatMakesNoSenseIsADeadLetterAtOnce$",
		},
		{
			name: "dead-are-parked", breaks: "describe says of a dead letter that it is tried again",
			file: "subscription/backlog.go",
			find: "		case it.Dead:", put: "		case false:",
			pkg: "subscription", test: "TestTheBacklogTellsParkedRecordsFromDeadLetters$",
		},
		{
			name: "oldest-is-the-first", breaks: "describe says of what is parked that it is younger than it is",
			file: "subscription/backlog.go",
			find: "h.Oldest == 0 || at < h.Oldest", put: "h.Oldest == 0",
			pkg: "subscription", test: "TestTheBacklogTellsParkedRecordsFromDeadLetters$",
		},
		{
			name: "unparkable-asked-for-ever", breaks: "a record that can't be parked, and was to be, is never delivered again, nor is what comes behind it",
			file: admit,
			find: "	if storable(&r.Record) != nil && !time.Now().Before(h.Next) {", put: "	if false {",
			pkg: ".", test: "TestADelayedRecordThatCannotBeParkedIsDeliveredAtItsTime$",
		},
		{
			name: "first-time-counts", breaks: "a record whose time was changed by whoever forwards it is delivered at the earlier one",
			file: "subscription/delay.go",
			find: "for i := len(r.Headers) - 1; i >= 0; i-- {", put: "for i := range r.Headers {",
			pkg: "subscription", test: "TestOfSeveralTimesTheLastCounts$",
		},
		{
			name: "delayed-again", breaks: "a delayed record is delivered once more when it is read again after its end by a host whose clock is behind",
			file: "subscription/delay.go",
			find: "	if v == core.Past {", put: "	if false {",
			pkg: "subscription", test: "TestADelayIsKeptHoweverLongItIs$",
		},
		{
			name: "senseless-delay-for-ever", breaks: "a record whose time makes no sense is a dead letter again whenever it is redriven",
			file: admit,
			find: "	case err != nil && round == 0:", put: "	case err != nil:",
			pkg: "subscription", test: "TestARedriveDeliversARecordWhoseTimeMakesNoSense$",
		},
		{
			name: "delay-never-left", breaks: "a key of which a record was parked before holds the next one that is to come later for ever",
			file: "subscription/delay.go",
			find: "			st.Left(origin)\n", put: "",
			pkg: "subscription", test: "TestADelayOfAKeyThatWasParkedBeforeEnds$",
		},
		{
			name: "set-back-waits", breaks: "a clock that is set back by a day makes what is parked wait for a day",
			file: "subscription/clock.go",
			find: "		s.st.SetBack(back.Milliseconds())\n", put: "",
			pkg: "subscription", test: "TestAClockThatIsSetBackHoldsUpNothing$",
		},
		{
			name: "set-back-on-its-way", breaks: "a clock that is set back while a record is being parked makes that wait for so long",
			file: "subscription/core/state.go",
			find: "	return min(due, s.cfg.Now+max(0, r.Due-r.At))",
			put:  "	if s.phase == live {\n		return due\n	}\n	return min(due, s.cfg.Now+max(0, r.Due-r.At))",
			pkg:  "subscription/core", test: "TestAClockThatIsSetBackMakesNoPauseLonger$",
		},
		{
			name: "set-back-of-none", breaks: "a clock that is set back makes why say that a record is delayed until 1969 which waits for its turn only",
			file: "subscription/core/state.go",
			find: "min(due, max(0, due-by))", put: "due - by",
			pkg: "subscription/core", test: "TestAClockThatIsSetBackGivesNoTimeToWhatWaitsForNone$",
		},
		{
			name: "set-back-rewritten", breaks: "a record that is appended once more after a clock was set back is tried again at once, and not after its pause",
			file: "subscription/core/state.go",
			find: "	s.cfg.Now -= by\n", put: "",
			pkg: "subscription/core", test: "TestWhatIsAppendedOnceMoreAfterAClockWasSetBackHasItsPause$",
		},
		{
			name: "set-back-little-by-little", breaks: "a clock that is set back in small steps makes what is parked wait for all of them",
			file: "subscription/clock.go",
			find: "		return now, 0 // it may come to more\n",
			put:  "		c.looked, c.was = here, now\n		return now, 0\n",
			pkg:  "subscription", test: "TestManySmallStepsBackAreOne$",
		},
		{
			name: "set-back-amid-a-parking", breaks: "a clock that is set back between two looks for one record makes that wait for so long",
			file: "subscription/admit.go",
			find: "	return s.park(ctx, r, now, held)\n", put: "	return s.park(ctx, r, s.now(), held)\n",
			pkg: "subscription", test: "TestAClockThatIsSetBackAmidAParkingHoldsUpNothing$",
		},
		{
			name: "set-back-recalled", breaks: "a clock that is set back makes a record wait that failed under an earlier owner",
			file: "dispatch/recall.go",
			find: "due := now.Add(wait)", put: "due := now.Add(wait).Round(0)",
			pkg: "dispatch", test: "TestAStoredPauseIsNoLongerWhenTheClockIsSetBack$",
		},
		{
			name: "set-forward-unseen", breaks: "a record that is delayed comes an hour late when the clock is set forward, or the host was suspended",
			file: "subscription/shard.go",
			find: "due-now), dayEvery.Milliseconds()", put: "due-now), wait.Milliseconds()",
			pkg: "subscription", test: "TestADelayIsOfTheTimeOfDay$",
		},
	}
}
