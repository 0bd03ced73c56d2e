package main

// turnMutants are bugs of the turn of the shard set.
func turnMutants() []mutant {
	const sim, simulation, turn = "subscription/sim", "TestSimulation$", "subscription/core/turn.go"
	const heirOfReset = "TestAnHeirOfAResetKnowsNothingOfWhatComesAgain$"
	const live = "TestShardsAreChangedWhileTheyAreDelivered$"
	return []mutant{
		{
			name: "turn-forgets-the-finished", breaks: "a turn hands over only what is live: records that were parked and delivered are delivered again, after later ones",
			file: turn,
			find: "&& m.Offset >= at.Offset && !p.State", put: "&& m.Offset >= at.Offset+1<<40 && !p.State",
			pkg: sim, test: simulation,
		},
		{
			name: "journal-goes-on-after-its-end", breaks: "what a stale owner writes counts though another shard set has gone on",
			file: "subscription/core/state.go",
			find: "	if s.ended {\n		return\n	}\n", put: "",
			pkg: "subscription/core", test: "TestNothingCountsAfterTheEndOfAJournal$",
		},
		{
			name: "heir-begins-before-it-took-over", breaks: "a shard of a new set delivers before it has what its key has parked",
			file: "subscription/core/state.go",
			find: "			s.phase = adopting\n", put: "			s.phase = live\n",
			pkg: sim, test: simulation,
		},
		{
			name: "taken-over-by-the-mark", breaks: "a dead letter is lost when an heir goes on that a later record of its key has passed",
			file: turn,
			find: "return s.items[it.Origin] != nil }", put: "l := s.keys[it.state.name]; return l != nil && l.known(it.Origin) }",
			pkg: sim, test: simulation,
		},
		{
			name: "owner-goes-on-after-its-end", breaks: "a shard ends for the turn, and its owner goes on",
			file: turn,
			find: "	if s.phase != fresh {\n		s.phase, s.queue", put: "	if s.phase == fencing {\n		s.phase, s.queue",
			pkg: "subscription/core", test: "TestAnOwnerWritesNothingAfterItsEnd$",
		},
		{
			name: "turn-forgets-an-order", breaks: "a dead letter that was discarded right before a turn is one again",
			file: turn,
			find: " && !s.has(it) && !it.order.ends() {", put: " && !s.has(it) {",
			pkg: "subscription/core", test: "TestAnHeirTakesOverWhatItsPartitionsHave$",
		},
		{
			name: "turn-forgets-an-edit", breaks: "a dead letter that was edited right before a turn is delivered with the old value",
			file: turn,
			find: "		if it.order == Edit {\n", put: "		if it.order == Edit && p.edited == 0 {\n",
			pkg: "subscription/core", test: "TestAnHeirTakesOverWhatItsPartitionsHave$",
		},
		{
			name: "turn-forgets-a-skip", breaks: "a dead letter that was skipped right before a turn is one again",
			file: "subscription/core/orders.go",
			find: "return v == Discard || v == Pass }", put: "return v == Discard }",
			pkg: "subscription/core", test: "TestAnHeirTakesOverWhatItsPartitionsHave$",
		},
		{
			name: "turn-begins-anew", breaks: "a new shard set reads its topic from the first record",
			file: "subscription/delivery/turn.go",
			find: "Positions: final, Next: next}", put: "Next: next}",
			pkg: ".", test: live,
		},
		{
			name: "pause-of-a-turn-unsaid", breaks: "nobody learns how long a turn has held a key back",
			file: "subscription/delivery/turn.go",
			find: "d.of.NotePause(ctx, d.Definition, pause)", put: "error(nil)",
			pkg: ".", test: live,
		},
		{
			name: "turn-begins-at-the-latest", breaks: "a subscription that began at the latest record skips records at a turn",
			file: "subscription/delivery/subscriber.go",
			find: "		from = consumer.Earliest // where", put: "		// where",
			pkg: ".", test: "TestASubscriptionFromTheLatestSkipsNothingAtATurn$",
		},
		{
			name: "topics-of-old-sets-left", breaks: "the topics of shard sets that turned stay for ever when their subscription is deleted",
			file: "subscription/delete.go",
			find: "	for _, set := range d.All() {\n		if err := c.dropTopicsOf", put: "	for _, set := range d.All()[:1] {\n		if err := c.dropTopicsOf",
			pkg: ".", test: "TestWhatTurnedIsGuardedAndDeleted$",
		},
		{
			name: "old-sets-unguarded", breaks: "the group of a shard set that is ending can be moved, and its topics deleted",
			file: "subscription/sets.go",
			find: "func(s Set) bool { return s.ID == set })\n}\n\n// Topics", put: "func(s Set) bool { return s.ID == set && s.State == active })\n}\n\n// Topics",
			pkg: ".", test: "TestWhatTurnedIsGuardedAndDeleted$",
		},
		{
			name: "two-turns-at-once", breaks: "a turn begins while another one is under way, and its shards wait for what nobody ends",
			file: "subscription/turn.go",
			find: "	case d.Turning():\n		err = fmt", put: "	case false:\n		err = fmt",
			pkg: ".", test: "TestATurnWaitsForMembersAndBarsAnother$",
		},
		{
			name: "orders-out-of-sight", breaks: "nobody sees that an order about a dead letter waits for a process that carries it out",
			file: "subscription/delivery/letters.go",
			find: "		d.Ordered = decided[l.Item.Order]\n", put: "",
			pkg: ".", test: "TestAnOrderThatComesTooLateIsTold$",
		},
		{
			name: "waits-for-nothing", breaks: "a command that was to wait for an order says that it is carried out, and nobody has",
			file: "internal/cli/deadletters.go",
			find: "	if c.wait <= 0 {\n", put: "	if c.wait != 1 {\n",
			pkg: "internal/cli", test: "TestScripts/filter$",
		},
		{
			name: "journal-names-any-set", breaks: "the end of a journal that somebody forged makes a definition that nobody can read",
			file: "subscription/turn.go",
			find: "	return CheckShards(s.Shards, main.Storage[s.Storage].Partitions)\n", put: "	return nil\n",
			pkg: "subscription", test: "TestAJournalPutsNoSetBackThatNobodyCanRead$",
		},
		{
			name: "journal-names-any-storage-topic", breaks: "the end of a journal that somebody forged makes a definition of a storage topic that there is not, which nobody can deliver",
			file: "subscription/turn.go",
			find: " || s.Storage >= len(main.Storage):", put: " || s.Storage > maxStorage:",
			pkg: "subscription", test: "TestAJournalPutsNoSetBackThatNobodyCanRead$",
		},
		{
			name: "growth-forgets-the-limits", breaks: "a shard set that somebody wrote down with too many shards hands that number on at a growth, and more is delivered at once than the limits allow",
			file: "subscription/grow.go",
			find: "		have = d.Limits.Concurrency\n", put: "		_ = have\n",
			pkg: "subscription", test: "TestAGrowthKeepsToTheLimits$",
		},
		{
			name: "begins-with-what-is-retired", breaks: "a subscription that is made when storage topics are retired begins with the first of them, which nobody has any more",
			file: "subscription/document.go",
			find: "begin := main.Left()\n", put: "begin := 0\n",
			pkg: ".", test: "TestASubscriptionFromTheEarliestBeginsWithWhatIsLeft$",
		},
		{
			name: "waits-for-what-is-retired", breaks: "a subscription that nobody has delivered yet waits for ever for the storage topic that it was to begin with, which was retired",
			file: "subscription/grow.go",
			find: "	if d.Gone(main) {\n", put: "	if d.Gone(main) && at < 0 {\n",
			pkg: ".", test: "TestASubscriptionGoesOnBehindARetiredStorageTopic$",
		},
		{
			name: "parked-of-what-is-retired-unsaid", breaks: "nobody hears of parked records that are not delivered, as the registry had forgotten them and their storage topic was retired",
			file: "subscription/delivery/subscriber.go",
			find: "err == nil && b.First < b.Next {\n", put: "err == nil && b.First > b.Next {\n",
			pkg: ".", test: "TestWhatWasParkedOfARetiredStorageTopicIsTold$",
		},
		{
			name: "waits-for-the-end-of-what-is-retired", breaks: "a turn away from a storage topic that was retired waits for shards that nobody runs",
			file: "subscription/turn.go",
			find: "			case now.As(*s).Gone(main):", put: "			case now.As(*s).Gone(main) && i < 0:",
			pkg: ".", test: "TestASubscriptionGoesOnBehindARetiredStorageTopic$",
		},
		{
			name: "retired-set-never-goes", breaks: "what shard sets have left stays for ever",
			file: "subscription/delivery/subscriber.go",
			find: "		m.of.sweepSets(ctx, d)\n", put: "",
			pkg: ".", test: "TestWhatARetiredSetHasLeftGoes$",
		},
		{
			name: "fewer-shards-than-asked-for", breaks: "a subscription is made with another number of shards than was asked for",
			file: "subscription/document.go",
			find: "	if n := want.Set().Shards; n != 0 {\n", put: "	if n := want.Set().Shards; n < 0 {\n",
			pkg: "internal/cli", test: "TestScripts/reshard$",
		},
		{
			name: "turn-not-remembered", breaks: "a registry that went back over a turn leaves a subscription that delivers nothing any more",
			file: "subscription/delivery/turn.go",
			find: "		_, err = c.Restore(ctx, w.Definition, next)\n", put: "		_ = next\n",
			pkg: ".", test: "TestARegistryThatForgetsATurnIsTold$",
		},
		{
			name: "reset-knows-the-finished", breaks: "records that a reset sends a subscription back to are passed over, as what was parked of their keys was finished once",
			file: turn,
			find: "mine && !at.Anew && m.Offset", put: "mine && m.Offset",
			pkg: "subscription/core", test: heirOfReset,
		},
		{
			name: "reset-hands-over-what-comes-again", breaks: "what is parked above the place of a reset goes along, and the records before it are passed over",
			file: turn,
			find: "!n.Shed && o.Offset < n.Offset }", put: "!n.Shed }",
			pkg: "subscription/core", test: heirOfReset,
		},
		{
			name: "reset-forgets-the-parked", breaks: "what is parked below the place of a reset is lost",
			file: turn,
			find: "return !n.Anew || !n.Shed && o.", put: "return !n.Anew || n.Shed && o.",
			pkg: sim, test: simulation,
		},
		{
			name: "reset-begins-where-it-was", breaks: "a reset moves nothing",
			file: "subscription/delivery/turn.go",
			find: "reset := set.Start(in.Partition); reset {", put: "reset := set.Start(in.Partition); reset && at < 0 {",
			pkg: ".", test: "TestOnePartitionOfASubscriptionGoesBack$",
		},
		{
			name: "reset-moves-all-partitions", breaks: "a reset of one partition moves the others too",
			file: "subscription/reset.go",
			find: "partition >= len(s.Starts) || s.Starts[partition] == AsItWas {", put: "partition >= len(s.Starts) {",
			pkg: "subscription", test: "TestAResetThatNobodyCanHaveMadeIsRefused$",
		},
		{
			name: "reset-not-for-the-old", breaks: "members of a version that knows no reset begin where the set before has ended",
			file: "subscription/reset.go",
			find: "		return resetFormat\n", put: "		return turnedFormat\n",
			pkg: ".", test: "TestOnePartitionOfASubscriptionGoesBack$",
		},
		{
			name: "reset-not-remembered", breaks: "a registry that forgets a reset has it undone",
			file: "subscription/turn.go",
			find: "		now.atLeast(next.format())\n		next.State", put: "		next.Starts = nil\n		now.atLeast(next.format())\n		next.State",
			pkg: ".", test: "TestARegistryThatForgetsAResetIsTold$",
		},
		{
			name: "reset-miscounts", breaks: "a dry run of a reset counts what is parked as finished",
			file: "subscription/delivery/reset.go",
			find: "			p.Again--\n", put: "",
			pkg: ".", test: "TestASubscriptionGoesBackWhileItIsDelivered$",
		},
		{
			name: "end-at-the-beginning-is-an-error", breaks: "a member that is ended while it begins fails",
			file: "subscription/delivery/delivery.go",
			find: "return consumer.UnlessEnded(ctx, err)", put: "return err",
			pkg: ".", test: "TestAMemberThatIsEndedWhileItBeginsEndsWithoutAnError$",
		},
		{
			name: "set-that-delivers-retired", breaks: "the set that delivers is retired by its own name, and nothing is delivered any more",
			file: "subscription/turn.go",
			find: "s.ID == set && s.State == closing })", put: "s.ID == set })",
			pkg: "subscription", test: "TestAnOldJournalPutsNoSetBack$",
		},
		{
			name: "turn-of-another-life", breaks: "a member of a deleted subscription changes the sets of the one that was made anew",
			file: "subscription/turn.go",
			find: "		if now.Life() != d.Life() {", put: "		if false {",
			pkg: "subscription", test: "TestAnOldJournalPutsNoSetBack$",
		},
		{
			name: "older-set-put-back", breaks: "the end of an old journal puts a set behind newer ones",
			file: "subscription/turn.go",
			find: " || last.ID != d.Set().ID || next.Set <= last.Set", put: " || last.ID != d.Set().ID",
			pkg: "subscription", test: "TestAnOldJournalPutsNoSetBack$",
		},
		{
			name: "set-put-back-in-a-turn", breaks: "a journal begins a turn while another is under way",
			file: "subscription/turn.go",
			find: "		if now.Turning() || last.ID", put: "		if last.ID",
			pkg: "subscription", test: "TestAnOldJournalPutsNoSetBack$",
		},
		{
			name: "set-put-back-by-an-old-one", breaks: "a set that ended long ago begins a turn",
			file: "subscription/turn.go",
			find: "now.Turning() || last.ID != d.Set().ID ||", put: "now.Turning() ||",
			pkg: "subscription", test: "TestAnOldJournalPutsNoSetBack$",
		},
		{
			name: "set-put-back-twice", breaks: "one set stands in a definition twice",
			file: "subscription/turn.go",
			find: " || slices.ContainsFunc(now.Sets, func(s Set) bool { return s.ID == next.ID })", put: "",
			pkg: "subscription", test: "TestAnOldJournalPutsNoSetBack$",
		},
		{
			name: "set-put-back-with-a-pause", breaks: "a set that has not begun is said to have paused",
			file: "subscription/turn.go",
			find: "next.State, next.Since, next.Pause = making, time.Now().UnixMilli(), 0", put: "next.State, next.Since = making, time.Now().UnixMilli()",
			pkg: "subscription", test: "TestAnOldJournalPutsNoSetBack$",
		},
		{
			name: "shortest-pause", breaks: "the pause of a turn is said to be that of its quickest shard",
			file: "subscription/turn.go",
			find: "i < 0 || now.Sets[i].Pause >= ms", put: "i < 0",
			pkg: "subscription", test: "TestAnOldJournalPutsNoSetBack$",
		},
		{
			name: "turn-to-as-many", breaks: "a reshard to as many shards as there are turns all of them",
			file: "subscription/turn.go",
			find: "err != nil || d.Set().Shards == shards {", put: "err != nil {",
			pkg: "subscription", test: "TestAnOldJournalPutsNoSetBack$",
		},
	}
}
