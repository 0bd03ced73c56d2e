package main

// deletionMutants are bugs of what a group is before it is there and after it was deleted, of what a
// reading may overwrite, and of leases that end sooner.
func deletionMutants() []mutant {
	const core, reg, group = "group/core", "registry", "group"
	return []mutant{
		{
			name: "hold-of-a-subscription-that-is-gone", breaks: "a member that joined while its subscription was deleted keeps the topic from ever dropping a record again",
			file: "subscription/delivery/delete.go",
			find: "	if err == nil {\n		err = c.letGo(ctx, d.Group(), d.Topic)\n	}\n	if err != nil && !errors.Is(err, fault.Conflict)", put: "	if err != nil && !errors.Is(err, fault.Conflict)",
			pkg: ".", test: "TestAMemberOfADeletedSubscriptionHoldsNothing$",
		},
		{
			name: "hold-of-a-group-deleted-meanwhile", breaks: "a group that is deleted as its last member ends keeps the topic from ever dropping a record again",
			file: "consumer/hold.go",
			find: "	for range 2 { // what was", put: "	for range 1 { // what was",
			pkg: ".", test: "TestAGroupThatIsDeletedAsItsMemberEndsHoldsNothing$",
		},
		{
			name: "hold-of-the-next-group", breaks: "a deletion of a group that stood still lets retention take what the next group of the name needs",
			file: "consumer/hold.go",
			find: "	for range 2 { // the group that came", put: "	for range 1 { // the group that came",
			pkg: ".", test: "TestADeletionReleasesNothingOfTheNextGroup$",
		},
		{
			name: "set-of-no-subscription", breaks: "the topics of a shard set that is made while its subscription is deleted stay for ever",
			file: "subscription/turn.go",
			find: "	return errors.Join(err, c.dropTopicsOf(ctx, as, Deletion{}))", put: "	return err",
			pkg: ".", test: "TestATurnOfADeletedSubscriptionLeavesNothing$",
		},
		{
			name: "join-of-no-group", breaks: "a join that arrives after a deletion begins the group again by halves",
			file: "registry/protocol.go",
			find: "Version: j.Seen}, {Key: g.MetaKey(), Version: j.Meta}},", put: "Version: j.Seen}},",
			pkg: core, test: "TestALateJoinDoesNotBeginADeletedGroupByHalves$",
		},
		{
			name: "assignment-of-no-group", breaks: "an assignment that arrives after a deletion is in the way of the next group of that name",
			file: "registry/protocol.go",
			find: "{{Key: key, Version: last}, {Key: g.MetaKey(), Version: meta}},\n", put: "{{Key: key, Version: last}},\n",
			pkg: core, test: "TestALateAssignmentDoesNotBeginADeletedGroupByHalves$",
		},
		{
			name: "pause-of-no-group", breaks: "a pause that arrives after a deletion pauses the next group of that name",
			file: "registry/control.go",
			find: "			Checks: []Check{{Key: e.Key, Version: e.Version}, {Key: metaEntry.Key, Version: metaEntry.Version}},\n",
			put:  "			Checks: []Check{{Key: e.Key, Version: e.Version}},\n",
			pkg:  reg, test: "TestNothingThatArrivesAfterADeletionIsStored$",
		},
		{
			name: "stalled-deletion-goes-on", breaks: "a deleter that was stopped takes the progress of a group that is in use again",
			file: "registry/meta.go",
			find: "Version: e.Version}, plan}, Puts", put: "Version: e.Version}}, Puts",
			pkg: reg, test: "TestAStalledDeletionTakesNoGroupThatIsInUse$",
		},
		{
			name: "begun-upon-remains", breaks: "a new group begins at a checkpoint of a deleted one, and skips what that covered",
			file: "registry/meta.go",
			find: "			if done, err := g.sweep(ctx, e); err != nil {\n				return Meta{}, err\n			} else if !done {\n				continue\n			}\n", put: "",
			pkg: reg, test: "TestWhatIsLeftOfADeletedGroupIsInNobodysWay$",
		},
		{
			name: "checkpoints-left", breaks: "a deletion leaves the progress, and the next group of that name skips what it covers",
			file: "registry/meta.go",
			find: "append(snap.Entries, points.Entries...)", put: "append(snap.Entries, points.Entries[:0]...)",
			pkg: reg, test: "TestWhatIsLeftOfADeletedGroupIsInNobodysWay$",
		},
		{
			name: "member-of-two-lives", breaks: "a member goes on in the next group of a name with what it knows of the one before",
			file: "group/core/view.go",
			find: "	case s.everJoined && m.Life != s.life:\n", put: "	case s.everJoined && m.Life == \"\":\n",
			pkg: core, test: "TestAMemberOfOneLifeDoesNotGoOnInAnother$",
		},
		{
			name: "window-of-another-life", breaks: "a static member loses its place by a write of the life before",
			file: "registry/protocol.go",
			find: "{{Key: g.MemberKey(member), Version: stray}, {Key: g.MetaKey(), Version: meta}},\n", put: "{{Key: g.MemberKey(member), Version: stray}},\n",
			pkg: core, test: "TestTheEndOfAWindowOfAnotherLifeIsNotStored$",
		},
		{
			name: "checkpoint-of-an-earlier-owner", breaks: "a member begins at a checkpoint that the store has lost and its owner never had",
			file: "group/core/view.go",
			find: " && old.Units[n].OwnerVersion == v.OwnerVersion {\n", put: " {\n",
			pkg: core, test: "TestACheckpointOfAnEarlierOwnerIsNotKept$",
		},
		{
			name: "done-to-another-life", breaks: "a seek or a pause that was asked for one group is done to the next one of its name",
			file: "registry/meta.go",
			find: "return g.life != \"\" && m.Life != g.life }", put: "return g.life != \"\" && m.Life == \"\" }",
			pkg: reg, test: "TestNothingIsDoneToAnotherLife$",
		},
		{
			name: "mark-of-another-moment", breaks: "a store that goes back during a deletion has half a group, at which the next one begins",
			file: "registry/meta.go",
			find: "	_, done, err := g.remove(ctx, mark, Txn{Deletes: []string{mark.Key}})\n	return done, err\n",
			put:  "	_, err := g.r.Txn(ctx, Txn{Deletes: []string{mark.Key}})\n	return true, err\n",
			pkg:  reg, test: "TestADeletionInAStoreThatGoesBackLeavesNothing$",
		},
		{
			name: "reading-that-feeds-itself", breaks: "a member at work reads the whole group over and over",
			file: "group/core/entry.go",
			find: "return true, again || i == last && e.past[i].sent < asked\n", put: "return true, again || i <= last\n",
			pkg: group, test: "TestAMemberAtWorkDoesNotReadTheGroupAgainAndAgain$",
		},
		{
			name: "reading-overwrites-what-is-newer", breaks: "a member forgets a grant or a checkpoint that it was told is stored",
			file: "group/core/entry.go",
			find: "		if e.past[i].version == shown {\n", put: "		if e.past[i].version == shown && last < 0 {\n",
			pkg: "group/sim", test: "TestSimulation$",
		},
		{
			name: "sooner-deadline-ignored", breaks: "after a suspension of the host handlers run on in a session that is over",
			file: "group/core/step.go",
			find: "			s.lease = ev.Lease //", put: "			s.lease = max(s.lease, ev.Lease) //",
			pkg: core, test: "TestALeaseThatEndsSoonerIsObeyed$",
		},
		{
			name: "deadline-not-looked-at", breaks: "after a suspension of the host nobody looks whether the session is over before something happens",
			file: "group/run.go",
			find: "	m.look(ctx) // handlers that run must not outlive it\n", put: "",
			pkg: group, test: "TestHandlersDoNotOutliveALeaseThatEndedWhileTheHostWasSuspended$",
		},
		{
			name: "handler-in-doubt", breaks: "handlers are started though others may take this process for dead",
			file: "group/lease.go",
			find: "	if l.doubter != nil && l.doubter.Doubtful() {\n", put: "	if l.doubter == nil && l.session == nil {\n",
			pkg: group, test: "TestNoHandlerStartsWhileTheSessionIsInDoubt$",
		},
	}
}
