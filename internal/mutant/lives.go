package main

// livesMutants are bugs in what keeps the topics apart that have a name one after another.
func livesMutants() []mutant {
	return []mutant{
		{
			name: "finished-deletion-is-taken-back", breaks: "a topic whose deletion was refused is there without its records, as somebody else had gone on with it",
			file: "topic/catalog.go",
			find: "if version, err = c.put(ctx, doc, version); err == nil { // so", put: "if err == nil { // so",
			pkg: ".", test: "TestADeletionThatSomebodyElseFinishesIsNotTakenBack$",
		},
		{
			name: "groups-of-all-topics", breaks: "the deletion of a topic takes the groups of all others",
			file: "topic/catalog.go",
			find: "		case err == nil && m.Topic == name:", put: "		case err == nil:",
			pkg: "topic", test: "TestADeletionTakesTheGroupsOfItsTopicAlone$",
		},
		{
			name: "deletion-stops-at-a-damaged-group", breaks: "no topic can be deleted while there is a group that nobody can read",
			file: "topic/catalog.go",
			find: "		case errors.Is(err, fault.NotFound), errors.Is(err, fault.Corrupt), errors.Is(err, fault.Invalid):\n			err = nil", put: "		case errors.Is(err, fault.NotFound):\n			err = nil",
			pkg: "topic", test: "TestADeletionTakesTheGroupsOfItsTopicAlone$",
		},
		{
			name: "group-that-took-the-name", breaks: "a deletion of a topic that stood still takes the group of another one",
			file: "topic/catalog.go",
			find: "err = g.Within(m.Life).Destroy(ctx)", put: "err = g.Destroy(ctx)",
			pkg: "topic", test: "TestADeletionTakesNoGroupThatTookTheNameOfOneOfItsTopic$",
		},
		{
			name: "refused-for-who-has-left", breaks: "a topic whose deletion was refused is deleted by the next who asks for it, as who ordered that had gone",
			file: "topic/catalog.go",
			find: "context.WithTimeout(context.WithoutCancel(ctx), clearTimeout) // nobody", put: "context.WithTimeout(ctx, clearTimeout) // nobody",
			pkg: "topic", test: "TestADeletionThatIsRefusedLeavesTheTopicAsItWas$",
		},
		{
			name: "half-made-is-ready", breaks: "a topic that is half made is called ready when its deletion is refused",
			file: "topic/catalog.go",
			find: "	doc.State = was\n", put: "	doc.State = Ready\n",
			pkg: "topic", test: "TestADeletionThatIsRefusedLeavesTheTopicAsItWas$",
		},
		{
			name: "taken-back-when-half-done", breaks: "a deletion is taken back though some groups may be gone",
			file: "topic/catalog.go",
			find: "if was != Deleting && errors.Is(err, fault.Conflict) {", put: "if was != Deleting {",
			pkg: "topic", test: "TestADeletionThatIsRefusedLeavesTheTopicAsItWas$",
		},
		{
			name: "second-deleter-leaves-no-mark", breaks: "of two who delete a topic one takes it back without its records",
			file: "topic/catalog.go",
			find: "		if was != Deleting || !marked {", put: "		if was != Deleting || marked && false {",
			pkg: "topic", test: "TestADeletionThatAnotherOneGoesOnWithIsNotTakenBack$",
		},
		{
			name: "taken-back-by-hope", breaks: "a topic whose deletion was refused is deleted by the next who asks for it, as a write was lost",
			file: "topic/catalog.go",
			find: "		case !errors.Is(err, fault.Unknown):\n			return nil //", put: "		default:\n			return nil //",
			pkg: "topic", test: "TestADeletionIsTakenBackThoughAWriteIsLost$",
		},
		{
			name: "topic-made-anew-under-a-subscription", breaks: "a subscription takes the first records of the next topic of a name for those of the last, which it has parked or finished",
			file: "topics.go",
			find: "EnsureUnless(ctx, name, cfg, c.subs.Keep(name))", put: "EnsureUnless(ctx, name, cfg, nil)",
			pkg: ".", test: "TestNoTopicIsMadeAnewUnderASubscriptionOfTheLast$",
		},
		{
			name: "subscription-of-an-earlier-topic", breaks: "a subscription whose making stood still begins where its earlier topic did, and skips what the next one has before",
			file: "subscription/document.go",
			find: "[]registry.Check{defined} // or", put: "[]registry.Check{defined}[:0] // or",
			pkg: ".", test: "TestASubscriptionIsMadeOfTheTopicThatIsThere$",
		},
		{
			name: "topic-of-a-half-made-subscription", breaks: "a topic is deleted while somebody makes a subscription of it, who goes on with the next topic of the name as with that one",
			file: "subscription/delivery/guard.go",
			find: "all, err := c.Begun(ctx)", put: "all, err := c.List(ctx)",
			pkg: ".", test: "TestATopicIsNotDeletedUnderASubscriptionThatIsBeingMade$",
		},
		{
			name: "topic-that-is-in-use-by-now", breaks: "a deletion that stood still takes a topic with a group, or a subscription, that came meanwhile and nobody asked it to take",
			file: "subscription/delivery/guard.go",
			find: "DeleteUnless(ctx, name, has, inUse)", put: "DeleteUnless(ctx, name, has, nil)",
			pkg: ".", test: "TestADeletionThatFindsNewUsersOfItsTopicTakesNothing$",
		},
		{
			name: "group-of-a-deletion-cut-short", breaks: "a group goes on in the next topic of a name where it was in the last, and skips what is acked there",
			file: "topic/catalog.go",
			find: "	if doc.Internal == \"\" {\n		if err := c.clearGroups", put: "	if doc.Internal == \"never\" {\n		if err := c.clearGroups",
			pkg: ".", test: "TestTheNextTopicHasNoGroupsOfADeletionThatWasCutShort$",
		},
		{
			name: "group-founded-for-a-topic-that-is-gone", breaks: "a member that stood still founds a group that counts units as an earlier topic had them, and nobody consumes",
			file: "group/core/session.go",
			find: "		j.Also = s.defined() //", put: "		j.Also = nil //",
			pkg: ".", test: "TestAMemberOfAnEarlierTopicFoundsNoGroupOfTheNext$",
		},
		{
			name: "group-changed-for-a-topic-that-is-gone", breaks: "a member that stood still passes units of a group that were finished in an earlier topic, and acked records of the next one are skipped",
			file: "group/core/layout.go",
			find: "	checks = append(checks, s.defined()...)\n", put: "",
			pkg: ".", test: "TestAMemberOfAnEarlierTopicChangesNoGroupOfTheNext$",
		},
		{
			name: "order-for-any-life", breaks: "a limit, a pause or other shards are given to a subscription that nobody meant",
			file: "subscription/pause.go",
			find: "		if began != \"\" && d.Life() != began {", put: "		if began == \"never\" {",
			pkg: ".", test: "TestAnOrderForOneLifeIsNotCarriedOutInTheNext$",
		},
		{
			name: "reshard-of-another-life", breaks: "other shards that were planned for one subscription are given to the next of its name",
			file: "subscription/turn.go",
			find: "		if d.Life() != of.Life() {", put: "		if false {",
			pkg: "subscription", test: "TestOnlyTheSubscriptionThatWasMeantIsResharded$",
		},
		{
			name: "pause-of-any-life", breaks: "a pause that was ordered for one group pauses the next of its name",
			file: "registry/control.go",
			find: "			g = g.Within(meta.Life) //", put: "			_ = meta.Life //",
			pkg: ".", test: "TestAnOrderForOneLifeIsNotCarriedOutInTheNext$",
		},
		{
			name: "hold-without-partitions-that-came-later", breaks: "retention takes what a group needs of a storage topic that an operator gave more partitions",
			file: "commitlog/topic.go",
			find: "	if t.added > 0 {\n", put: "	if false {\n",
			pkg: "commitlog", test: "TestTheFirstPartitionsOfAStorageTopicAreOneOfSoMany$",
		},
		{
			name: "ends-of-partitions-that-came-later", breaks: "a storage topic that an operator gave more partitions is sealed into a definition that nobody can read",
			file: "commitlog/topic.go",
			find: "	return ends[:t.c.Partitions], nil\n", put: "	return ends, nil\n",
			pkg: "topic", test: "TestAStorageTopicThatIsAnotherOneIsNotOpened$",
		},
		{
			name: "storage-topic-of-whoever-made-it", breaks: "a group goes on at its old position in a storage topic that was made again, and skips what is acked there",
			file: "topic/identity.go",
			find: "found != \"\" && s.ID != found:\n", put: "found != \"\" && s.ID == \"never\":\n",
			pkg: "topic", test: "TestAStorageTopicThatIsAnotherOneIsNotOpened$",
		},
		{
			name: "lives-share-storage-topics", breaks: "a step of a topic that is gone seals or deletes the next one of its name",
			file: "topic/life.go",
			find: "	return fmt.Sprintf(\"%s%s..%d.%s\", namespace, topic, i, life)\n",
			put:  "	return fmt.Sprintf(\"%s%s..%d.x\", namespace, topic, i)\n",
			pkg:  "topic", test: "TestADeleterOfAnEarlierLifeTakesNothing$",
		},
		{
			name: "step-of-any-life", breaks: "a switch that was asked for one topic is done to the next one of its name",
			file: "topic/life.go",
			find: "	if life != \"\" && d.Life != life {\n", put: "	if life != d.Life && life == \"never\" {\n",
			pkg: "topic", test: "TestASwitchOfAnEarlierLifeSwitchesNothing$",
		},
		{
			name: "orphan-of-an-addition", breaks: "a storage topic that is made for a topic that is gone stays for ever",
			file: "topic/life.go",
			find: "	if errors.Is(err, fault.Conflict) {\n		if failed", put: "	if errors.Is(err, fault.Sealed) {\n		if failed",
			pkg: "topic", test: "TestAnAdditionToAnEarlierLifeLeavesNothingBehind$",
		},
		{
			name: "orphan-of-who-was-ended", breaks: "a deletion that ends who makes a storage topic for what is deleted leaves that in the log for ever",
			file: "topic/life.go",
			find: "	if err == nil || ctx.Err() == nil {", put: "	if true {",
			pkg: "topic", test: "TestWhoIsEndedByADeletionLeavesNothingBehind$",
		},
		{
			name: "handle-of-a-topic-that-is-gone", breaks: "a client never produces again to a topic that was made anew",
			file: "topic/handles.go",
			find: "	case t.Gone():\n", put: "	case t == nil:\n",
			pkg: ".", test: "TestAClientGoesOnWithTheNextTopicOfAName$",
		},
		{
			name: "records-of-a-lost-registry-hidden", breaks: "acked records are out of sight when their topic is created over a lost registry",
			file: "topic/catalog.go",
			find: "if err := c.checkLost(ctx, name); err != nil {", put: "if err := c.checkLost(ctx, name); false {",
			pkg: "topic", test: "TestRecordsThatNothingDefinesAreTakenUpWhenAskedFor$",
		},
		{
			name: "moved-topic-opened-again", breaks: "producers are acked at a place that a topic was moved away from",
			file: "topic/moved.go",
			find: "	if d.Moved == nil {\n", put: "	if d.Moved == nil || d.Moved.Done {\n",
			pkg: "mirror", test: "TestASourceThatWasMovedSaysWhereItWent$",
		},
		{
			name: "progress-carried-in-one-try", breaks: "a cut-over fails when somebody else does the same one",
			file: "mirror/carried.go",
			find: "const applyTries = 3\n", put: "const applyTries = 1\n",
			pkg: "mirror", test: "TestACutOverThatSomebodyElseIsInTheWayOfGoesOn$",
		},
		{
			name: "checkpoint-carried-twice", breaks: "a cut-over that is run again takes progress back",
			file: "mirror/carried.go",
			find: "err == nil && c.Applied:", put: "err != nil && c.Applied:",
			pkg: "mirror", test: "TestACutOverThatIsRunAgainTakesNoProgressBack$",
		},
	}
}
