package main

// idleMutants are bugs of what processes do that have much open in which nothing happens.
func idleMutants() []mutant {
	const page = "commitlog/filelog/internal/page"
	return []mutant{
		{
			name: "idlers-not-told-of-one-more", breaks: "a topic that gets quiet is watched half a second late",
			file: page + "/idle.go",
			find: "			r.bell.Add(1)\n			futexWakeOwn(&r.bell)\n", put: "",
			pkg: page, test: "TestIdlersAreWokenByTheirOwnBells$",
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
	}
}
