package main

// idleMutants are bugs of what processes do that have much open in which nothing happens.
func idleMutants() []mutant {
	const page = "commitlog/filelog/internal/page"
	return []mutant{
		{
			name: "memory-never-given-back", breaks: "a daemon stays as large as it was when it started, while it has nothing to do",
			file: "internal/rest/rest.go",
			find: "			release()\n", put: "",
			pkg: "internal/rest", test: "TestMemoryIsGivenBackWhenNothingIsDone$",
		},
		{
			name: "memory-given-back-while-busy", breaks: "a daemon collects its garbage every two seconds while it delivers",
			file: "internal/rest/rest.go",
			find: "if quiet && owed > 0 {", put: "if owed > 0 {",
			pkg: "internal/rest", test: "TestMemoryIsGivenBackWhenNothingIsDone$",
		},
		{
			name: "memory-given-back-for-nothing", breaks: "an idle daemon collects its garbage every two seconds",
			file: "internal/rest/rest.go",
			find: "if now-freed >= worth {", put: "if now-freed >= 0 {",
			pkg: "internal/rest", test: "TestMemoryIsGivenBackWhenNothingIsDone$",
		},
		{
			name: "program-not-let-go", breaks: "a daemon has all of the program in memory that its start went through",
			file: "internal/rest/program_linux.go",
			find: "		if !p.changed {\n", put: "		if p.changed {\n",
			pkg: "internal/rest", test: "TestWhatOnlyTheStartNeededOfTheProgramIsLetGo$",
		},
		{
			name: "quiet-topic-keeps-its-pages", breaks: "a daemon has the segments of its hundred idle journals in memory",
			file: "commitlog/filelog/wait.go",
			find: "				w.s.segs.rest() // until somebody reads again\n", put: "",
			pkg: "commitlog/filelog", test: "TestAQuietTopicHasNoPagesOfItsSegments$",
		},
		{
			name: "idlers-not-told-of-one-more", breaks: "a topic that gets quiet is watched half a second late",
			file: page + "/idle.go",
			find: "			r.bell.Add(1)\n			futexWakeOwn(&r.bell)\n", put: "",
			pkg: page, test: "TestIdlersAreToldOfOneMore$",
		},
		{
			name: "idlers-hear-no-lost-bell", breaks: "records whose writer was killed before it rang are not read in a topic that was quiet",
			file: page + "/idle.go",
			find: "w.page.Bell() != w.old || w.due()", put: "w.due()",
			pkg: page, test: "TestIdlersLookForWhatTheyWereNotToldOf$",
		},
		{
			name: "no-long-rest", breaks: "a hundred groups that have nothing to do are asked for their progress every second",
			file: "group/pace.go",
			find: "			p.ticker.Reset(longInterval)\n", put: "",
			pkg: "group", test: "TestProgressAfterARestIsStoredAsSoonAsAnyOther$",
		},
		{
			name: "serve-hears-of-nothing", breaks: "a daemon delivers what is defined half a minute late",
			file: "push/serve.go",
			find: "	case _, ok := <-hints:\n", put: "	case _, ok := <-(<-chan struct{})(nil):\n",
			pkg: "push", test: "TestServeFollowsTheSubscriptions$",
		},
		{
			name: "session-not-lost-first", breaks: "a group that lost the session of its process is given it again",
			file: "group/core/session.go",
			find: ",\n		LoseSession{Session: s.session})\n", put: ")\n",
			pkg: "group/core", test: "TestASessionIsLostBeforeAnotherIsOpened$",
		},
		{
			name: "left-without-its-entry", breaks: "others wait for a member that left, as its process lives",
			file: "group/core/session.go",
			find: "		e.Withdraw = &t\n", put: "		_ = t\n",
			pkg: "group/sim", test: "TestSimulation$",
		},
		{
			name: "left-without-the-answer", breaks: "a member that is stopped as it joins interrupts all groups of its process",
			file: "group/core/session.go",
			find: "		if !s.joining || s.now >= s.joinUntil {", put: "		if s.now > 0 {",
			pkg: "group/core", test: "TestAMemberThatIsStoppedAsItJoinsWaitsForTheAnswer$",
		},
		{
			name: "left-without-a-doubt", breaks: "a member that left comes back with a write that lands late, and keeps units for ever",
			file: "group/core/session.go",
			find: "	e.Doubt = s.doubt || s.joining // a write may land later\n", put: "",
			pkg: "group/sim", test: "TestSimulation$",
		},
		{
			name: "entry-that-could-not-be-withdrawn", breaks: "others wait for a member that left, as its entry could not be taken away",
			file: "registry/sessions.go",
			find: "		doubt = err != nil && !(", put: "		doubt = false && !(",
			pkg: "registry", test: "TestALeaveThatMayNotBeAllEndsTheSessionForAll$",
		},
		{
			name: "destroyed-group-takes-others-along", breaks: "a group that is deleted under its members interrupts all groups of their processes",
			file: "registry/sessions.go",
			find: "err != nil && !(errors.Is(err, ErrConflict) && x.hasNone(ctx, t.Deletes, incarnation))", put: "err != nil && (!errors.Is(err, ErrConflict) || x.ID() != \"\")",
			pkg: "group", test: "TestAGroupThatIsDestroyedInterruptsNoOther$",
		},
		{
			name: "withdrawn-as-it-can-not-be-read", breaks: "others wait for a member that left, as nobody could look at its entry",
			file: "registry/sessions.go",
			find: "		case err != nil:\n			return false\n		case e.Session", put: "		case e.Session",
			pkg: "registry", test: "TestALeaveThatIsRefusedAndCanNotBeLookedAtEndsTheSessionForAll$",
		},
		{
			name: "withdrawn-whoever-wrote-it", breaks: "others wait for a member that left, as its own entry was taken for somebody else's",
			file: "registry/sessions.go",
			find: "		case e.Session == x.ID() && (incarnationOf(e) == incarnation || incarnationOf(e) == \"\"):\n", put: "		case e.Session == \"\":\n",
			pkg: "registry", test: "TestALeaveOfWhatIsGoneEndsTheSessionForNobody$",
		},
		{
			name: "lost-session-given-again", breaks: "a session that one group knows to be lost is given to the next",
			file: "registry/sessions.go",
			find: "	close(x.lost)\n	if x.of.open[x.ttl] == x {\n", put: "	close(x.lost)\n	if false {\n",
			pkg: "registry", test: "TestALeaveThatMayNotBeAllEndsTheSessionForAll$",
		},
		{
			name: "shared-session-ended-by-one", breaks: "one group that lets go of a lost session lets others begin what the rest of the process still runs",
			file: "registry/sessions.go",
			find: "		last := x.holders == 0\n", put: "		last := x.holders >= 0\n",
			pkg: "registry", test: "TestASessionThatIsLostEndsWhenAllHaveLetGo$",
		},
		{
			name: "entry-came-back", breaks: "a store that goes back makes a member of one that left, for as long as its process lives",
			file: "registry/sessions.go",
			find: "			x.remove(ctx)\n", put: "",
			pkg: "registry", test: "TestAnEntryThatCameBackIsTakenAwayAgain$",
		},
		{
			name: "session-watched-between-looks", breaks: "a process goes on with a session that has ended while the store is slow to answer what it asks",
			file: "registry/sessions.go",
			find: "	looks.Go(func() { x.lookAgain(ctx) }) // joined above\n", put: "	x.lookAgain(ctx)\n",
			pkg: "registry", test: "TestASessionIsLostForAllWhileItIsLookedForWhatCameBack$",
		},
		{
			name: "session-for-each-group", breaks: "a daemon keeps as many sessions as it has subscriptions",
			file: "consumer/member.go",
			find: "cfg.Registry, cfg.Sessions, cfg.WorkersCommit, cfg.Logger = c.Registry, c.Sessions,", put: "cfg.Registry, cfg.WorkersCommit, cfg.Logger = c.Registry,",
			pkg: ".", test: "TestSubscriptionsOfAKilledProcessAreAllTakenOver$",
		},
		{
			name: "session-that-has-ended-shared", breaks: "a group begins under a session that has ended in the store",
			file: "registry/sessions.go",
			find: "	case <-x.Session.Done():\n		return nil // and", put: "	case <-(chan struct{})(nil):\n		return nil // and",
			pkg: "registry", test: "TestASessionThatHasEndedIsGivenToNobody$",
		},
		{
			name: "session-shared-as-it-ends", breaks: "the entry of the last group that leaves stays, as another one came that moment",
			file: "registry/sessions.go",
			find: "		return false\n	}\n	if x.of.open[x.ttl] == x.shared {", put: "		return false\n	}\n	if x.of.open[x.ttl] == nil {",
			pkg: "registry", test: "TestTheSessionOfTheLastOneWhoLeavesIsGivenToNobody$",
		},
		{
			name: "withdrawn-without-end", breaks: "a process whose groups come and go keeps all of them in memory, and asks for each",
			file: "registry/sessions.go",
			find: "	if len(x.withdrawn) > mostWithdrawn {", put: "	if len(x.withdrawn) < 0 {",
			pkg: "registry", test: "TestASessionFromWhichManyHaveGoneEnds$",
		},
		{
			name: "lost-session-kept", breaks: "a session that groups lost lives on as long as their process does, and what it keeps with it",
			file: "group/effect.go",
			find: "		_ = s.Close(ctx) // it has ended or will run out\n", put: "		_ = ctx\n",
			pkg: "group", test: "TestALostSessionEndsWhileItsGroupsRunOn$",
		},
		{
			name: "start-closed-before-its-turn", breaks: "a start of a ring's member that gives up as it waits leaves a session for the next to wait for",
			file: "ring/table.go",
			find: "	_ = t.first.session.Close(ctx) // if this fails it runs out by itself\n", put: "	_ = ctx\n",
			pkg: "ring", test: "TestAStartThatIsClosedBeforeItsTurnLeavesNothing$",
		},
		{
			name: "session-watched-for-its-opener", breaks: "a session that ends is not lost for those who share it once the group that opened it has stopped",
			file: "registry/sessions.go",
			find: "context.WithCancel(context.WithoutCancel(ctx))", put: "context.WithCancel(ctx)",
			pkg: "registry", test: "TestASessionIsWatchedForAllWhenWhoOpenedItIsGone$",
		},
		{
			name: "session-of-any-ttl", breaks: "a group gets a session of another TTL than it asked for",
			file: "registry/sessions.go",
			find: "	x := s.open[ttl]\n", put: "	x := s.open[ttl]\n	for _, y := range s.open {\n		x = y\n	}\n",
			pkg: "registry", test: "TestMembersWithAnotherTTLHaveASessionOfTheirOwn$",
		},
		{
			name: "next-start-taken-away", breaks: "the entry of a member that was started again is removed in the place of one that came back",
			file: "registry/sessions.go",
			find: "Txn{Checks: []Check{{Key: w.key, Version: e.Version}}, Deletes", put: "Txn{Deletes",
			pkg: "registry", test: "TestAnEntryThatChangesAsItIsTakenAwayStays$",
		},
	}
}
