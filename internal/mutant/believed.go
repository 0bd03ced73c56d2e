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
			find: "	if n := t.Storage[storage].Partitions; n != d.Set().Shards {\n", put: "	if n := t.Storage[storage].Partitions; n < 1 {\n",
			pkg: ".", test: "TestASetOfAnotherSizeThanItsTopicsIsDamaged$",
		},
		{
			name: "subscription-of-a-subscription", breaks: "what a subscription writes down is delivered by another, or by itself, for ever",
			file: "subscription/parts.go",
			find: "	if err == nil && main.Internal != \"\" {\n", put: "	if err == nil && main.Internal == name {\n",
			pkg: ".", test: "TestWhatBelongsToASubscriptionIsNotDeliveredByOne$",
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
			find: "min(asked, r.Longest())", put: "asked",
			pkg: dispatch, test: "TestAnErrorAsksForNoMoreThanTheLongestPause$",
		},
		{
			name: "applied-to-a-subscription", breaks: "a dry run says that a subscription of a subscription would be made",
			file: "internal/apply/plan.go",
			find: "t.Name == name && t.Internal != \"\" {", put: "t.Name == name && t.Internal == name {",
			pkg: "internal/apply", test: "TestATopicOfASubscriptionIsNotDelivered$",
		},
		{
			name: "claims-beyond-the-last-epoch", breaks: "one forged epoch has members write what nobody reads, and the group is of no use any more",
			file: "group/core/unit.go",
			find: "	if !s.mayBegin(n, registry.MaxClaim) {\n", put: "	if !s.mayBegin(n, registry.MaxClaim) && n < 0 {\n",
			pkg: "group/core", test: "TestNobodyBeginsAnEpochThatNobodyReads$",
		},
		{
			name: "no-epoch-to-give-away", breaks: "what was claimed in the last epoch can't be handed over",
			file: "group/core/unit.go",
			find: "	if !s.mayBegin(n, registry.MaxEpoch) {\n", put: "	if !s.mayBegin(n, registry.MaxClaim) {\n",
			pkg: "group/core", test: "TestNobodyBeginsAnEpochThatNobodyReads$",
		},
		{
			name: "gives-away-beyond-the-last-epoch", breaks: "a handoff writes an epoch that nobody reads",
			file: "group/core/unit.go",
			find: "	if !s.mayBegin(n, registry.MaxEpoch) {\n", put: "	if !s.mayBegin(n, registry.MaxEpoch) && n < 0 {\n",
			pkg: "group/core", test: "TestNobodyGivesAwayWhatHasNoEpochLeft$",
		},
		{
			name: "told-at-every-look", breaks: "a unit that nobody can own fills the log",
			file: "group/core/unit.go",
			find: "		u.refused = s.view.Units[n].OwnerVersion\n", put: "",
			pkg: "group/core", test: "TestNobodyBeginsAnEpochThatNobodyReads$",
		},
		{
			name: "assignment-of-no-version", breaks: "one forged assignment is followed by one that nobody reads",
			file: "group/core/plan.go",
			find: "doc.Version = s.view.Assignment.Version%registry.MaxEpoch + 1", put: "doc.Version = s.view.Assignment.Version + 1",
			pkg: "group/core", test: "TestAnAssignmentOfAnyVersionIsFollowedByOneThatIsRead$",
		},
		{
			name: "seek-beyond-the-last-epoch", breaks: "a seek writes an epoch that nobody reads",
			file: "registry/epoch.go",
			find: "		err = CheckEpoch(\"the unit\", next.Epoch, MaxEpoch)\n", put: "		err = nil\n",
			pkg: "registry", test: "TestASeekBeginsNoEpochThatNobodyReads$",
		},
		{
			name: "checkpoint-that-nobody-reads", breaks: "what fails is written down as nobody reads it, and the unit is of no use any more",
			file: "registry/protocol.go",
			find: "<= MaxValueBytes && c.check() == nil }", put: "<= MaxValueBytes }",
			pkg: "registry", test: "TestACheckpointIsWrittenAsItIsRead$",
		},
		{
			name: "ring-beyond-the-last-epoch", breaks: "one forged epoch has members write a ring that nobody reads",
			file: "ring/document.go",
			find: "	if err := registry.CheckEpoch(\"the ring\", epoch, registry.MaxClaim); err != nil {\n", put: "	if err := registry.CheckEpoch(\"the ring\", 0, registry.MaxClaim); err != nil {\n",
			pkg: "ring", test: "TestARingBeginsNoEpochThatNobodyReads$",
		},
		{
			name: "fence-that-nobody-reads", breaks: "a shard writes a fence that stops it for ever",
			file: "subscription/shard.go",
			find: "registry.CheckEpoch(\"its journal\", s.cfg.Epoch, core.MaxEpoch)", put: "registry.CheckEpoch(\"its journal\", 0, core.MaxEpoch)",
			pkg: "subscription", test: "TestAShardBeginsNoEpochThatNobodyReads$",
		},
		{
			name: "times-that-nobody-reads", breaks: "a shard writes a time that stops it for ever",
			file: "subscription/core/codec.go",
			find: "func (w *writer) time(ms int64) { w.num(max(-MaxTime, min(ms, MaxTime))) }", put: "func (w *writer) time(ms int64) { w.num(ms) }",
			pkg: "subscription/core", test: "TestWhateverIsWrittenIsRead$",
		},
		{
			name: "attempts-that-nobody-reads", breaks: "a shard writes a number of attempts that stops it for ever",
			file: "subscription/core/codec.go",
			find: "		w.num(int64(max(0, min(r.Attempts, MaxAttempts))))\n", put: "		w.num(int64(r.Attempts))\n",
			pkg: "subscription/core", test: "TestWhateverIsWrittenIsRead$",
		},
		{
			name: "round-that-nobody-reads", breaks: "a redrive of what a stranger wrote stops its shard for ever",
			file: "subscription/core/orders.go",
			find: "id.Round >= MaxRound:", put: "id.Round > MaxRound:",
			pkg: "subscription/core", test: "TestADeadLetterInItsLastRoundIsOnlyDiscarded$",
		},
		{
			name: "stranger-stops-the-shard", breaks: "one record that somebody produced to a journal stops its shard for ever",
			file: "subscription/journal.go",
			find: "					continue\n				}\n				out = append(out, placedRecord{", put: "					return err\n				}\n				out = append(out, placedRecord{",
			pkg: ".", test: "TestWhatOthersWriteIntoTheTopicsOfASubscriptionCountsForNothing$",
		},
		{
			name: "stranger-hides-the-letters", breaks: "one record that somebody produced to a journal hides all dead letters",
			file: "subscription/look.go",
			find: "				strange.note(recs[i].Offset, err)\n				continue\n", put: "				return nil, err\n",
			pkg: ".", test: "TestWhatOthersWriteIntoTheTopicsOfASubscriptionCountsForNothing$",
		},
		{
			name: "strangers-unsaid", breaks: "nobody hears that somebody else writes to a journal",
			file: "subscription/look.go",
			find: "	if strange.Count > 0 && j.Strange != nil {\n", put: "	if strange.Count < 0 && j.Strange != nil {\n",
			pkg: ".", test: "TestWhatOthersWriteIntoTheTopicsOfASubscriptionCountsForNothing$",
		},
		{
			name: "strangers-fill-the-log", breaks: "who writes to a journal writes as much to the log of its owner",
			file: "subscription/journal.go",
			find: "bits.OnesCount(uint(strange.Count)) == 1 {", put: "bits.OnesCount(uint(strange.Count)) >= 1 {",
			pkg: ".", test: "TestWhatOthersWriteIntoTheTopicsOfASubscriptionCountsForNothing$",
		},
		{
			name: "larger-than-any-parked", breaks: "a record of a stranger that can't be appended again ends its shard again and again",
			file: "subscription/parked.go",
			find: " && storable(&user) != nil {", put: " && storable(&user) != nil && i < 0 {",
			pkg: "subscription", test: "TestACopyThatIsTooLargeToHaveBeenParkedIsNoneOfOurs$",
		},
		{
			name: "name-used-for-ever", breaks: "who writes in the name of a shard has it wait for ever for what it has written itself",
			file: "subscription/core/state.go",
			find: "	case own && len(s.flight) > 0 && r.Seq >= s.flight[0].Seq:\n", put: "	case own && len(s.flight) < 0:\n",
			pkg: "subscription/core", test: "TestAShardWhoseNameWasUsedBeginsAnew$",
		},
		{
			name: "late-twin-ends-a-shard", breaks: "an append that lands a second time ends the shard that made it",
			file: "subscription/core/state.go",
			find: "	case own && len(s.flight) > 0 && r.Seq >= s.flight[0].Seq:\n", put: "	case own && len(s.flight) > 0:\n",
			pkg: "subscription/core", test: "TestALateTwinEndsNobody$",
		},
		{
			name: "older-version-goes-on", breaks: "a member goes on under a definition that it can't read, past what a newer version has parked",
			file: "subscription/delete.go",
			find: "		if errors.Is(err, ErrNewer) {\n", put: "		if errors.Is(err, ErrNewer) && d == nil {\n",
			pkg: ".", test: "TestAMemberEndsWhenANewerVersionHasChangedTheDefinition$",
		},
		{
			name: "older-version-deletes-the-group", breaks: "a member that is too old takes the progress of the newer ones with it",
			file: "subscription/delivery/delivery.go",
			find: "	if errors.Is(gone, fault.NotFound) {\n", put: "	if !errors.Is(gone, fault.Closed) {\n",
			pkg: ".", test: "TestAMemberEndsWhenANewerVersionHasChangedTheDefinition$",
		},
		{
			name: "newer-looks-damaged", breaks: "people are told to delete what they had to upgrade for",
			file: "subscription/decode.go",
			find: "	if d.Format > newestFormat {", put: "	if d.Format > newestFormat && err == nil {",
			pkg: "subscription", test: "TestADefinitionOfANewerVersionIsToldFromADamagedOne$",
		},
		{
			name: "newer-is-passed-over", breaks: "a topic is deleted from under a subscription that a newer version delivers, as people are told to",
			file: "subscription/delivery/guard.go",
			find: "err == nil && m.Topic == topicName {", put: "err == nil && m.Topic == topicName && !force {",
			pkg: ".", test: "TestAMemberEndsWhenANewerVersionHasChangedTheDefinition$",
		},
		{
			name: "force-offered-beside-newer", breaks: "people are told to delete a topic with the group of a subscription that a newer version delivers",
			file: "internal/cli/topic.go",
			find: "return s.Newer() && s.Name == owner", put: "return s.Newer() && s.Name != owner",
			pkg: "internal/cli", test: "TestATopicThatANewerVersionDeliversIsNotDeleted$",
		},
		{
			name: "redriven-beyond-the-last-round", breaks: "people are told that a dead letter is delivered again which never is",
			file: "subscription/delivery/letters.go",
			find: "l.ID.Round >= core.MaxRound:", put: "l.ID.Round > core.MaxRound:",
			pkg: ".", test: "TestADeadLetterOfTheLastRoundIsDiscarded$",
		},
		{
			name: "one-fault-hides-a-subscription", breaks: "a group that can't be read hides what else there is of its subscription",
			file: "internal/cli/subscription.go",
			find: "				problems = append(problems, err)\n			}\n", put: "				return err\n			}\n",
			pkg: "internal/cli", test: "TestASubscriptionIsShownButForWhatCantBeRead$",
		},
		{
			name: "undeliverable-looks-sound", breaks: "a subscription whose topic nobody delivers is described as any other",
			file: "internal/cli/subscription.go",
			find: "problems := []error{rf.CheckSubscription(ctx, args[0])}", put: "problems := []error{nil}",
			pkg: "internal/cli", test: "TestASubscriptionIsShownButForWhatCantBeRead$",
		},
	}
}
