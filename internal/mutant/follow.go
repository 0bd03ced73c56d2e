package main

// followMutants are bugs of subscriptions to topics that grow.
func followMutants() []mutant {
	const sim, simulation = "subscription/sim", "TestSimulation$"
	const heritage, grow = "subscription/core/heritage.go", "subscription/grow.go"
	const retired = "TestStorageTopicsOfASubscriptionAreRetired$"
	return []mutant{
		{
			name: "growth-loses-what-has-no-home", breaks: "a parked record is lost at a growth whose key is in a partition of its producer's choosing, or that has none",
			file: heritage,
			find: "	return slices.IndexFunc(h.After, func(after []int) bool { return slices.Contains(after, old) })", put: "	return -1",
			pkg: sim, test: simulation,
		},
		{
			name: "growth-parts-a-key", breaks: "what is parked of a key goes to another shard at a growth than its next records",
			file: heritage,
			find: "home := h.Home(o, key)", put: "home := h.Home(o, nil)",
			pkg: sim, test: simulation,
		},
		{
			name: "reset-keeps-later-storage-topics", breaks: "a reset to an earlier storage topic hands over what is parked of later ones, which then comes before what precedes it",
			file: heritage,
			find: "storage > h.Storage && h.Anew, ", put: "",
			pkg: sim, test: simulation,
		},
		{
			name: "drop-parked-keeps-earlier-storage-topics", breaks: "what is parked of earlier storage topics stays when a reset was to leave it behind",
			file: heritage,
			find: ", storage < h.Storage && h.Shed:", put: ":",
			pkg: ".", test: "TestAResetGoesAcrossStorageTopics$",
		},
		{
			name: "growth-skips-what-is-unread", breaks: "a shard ends at a growth before it has read its storage topic, as a checkpoint said so that went back since: records are lost",
			file: "subscription/delivery/grow.go",
			find: "	for !e.Ended() {\n", put: "	for !e.Ended() && !isClosed(d.last) {\n",
			pkg: ".", test: "TestAShardEndsNotBeforeItHasReadAll$",
		},
		{
			name: "growth-is-no-turn", breaks: "a subscription stays at the end of a storage topic that is sealed",
			file: grow,
			find: "		if !grown || now.Turning()", put: "		if grown || now.Turning()",
			pkg: ".", test: "TestMembersThatComeLaterFollowAllGrowths$",
		},
		{
			name: "growth-with-too-many-shards", breaks: "a subscription stops at a storage topic that has fewer partitions than it has shards",
			file: grow,
			find: "return min(max(have, least), partitions)", put: "return max(have, least)",
			pkg: ".", test: "TestAGrowthKeepsTheNumberOfShardsThatCanBe$",
		},
		{
			name: "growth-not-for-the-old", breaks: "members of a version that knows no growth deliver the first storage topic again",
			file: grow,
			find: "		now.atLeast(grownFormat)\n", put: "		now.atLeast(turnedFormat)\n",
			pkg: ".", test: "TestMembersThatComeLaterFollowAllGrowths$",
		},
		{
			name: "latest-begins-at-the-oldest", breaks: "a subscription from the latest record delivers all of the storage topics before",
			file: "subscription/document.go",
			find: "			if d.From == \"latest\" {\n", put: "			if d.From == \"\" {\n",
			pkg: ".", test: "TestASubscriptionOfATopicThatHasGrownDeliversAllOfIt$",
		},
		{
			name: "earlier-storage-topics-held", breaks: "a subscription that has left a storage topic keeps its records for ever",
			file: "consumer/hold.go",
			find: "	if st.Past(h.group.Name(), storage) {", put: "	if st.Past(h.group.Name(), storage+1<<20) {",
			pkg: ".", test: retired,
		},
		{
			name: "retired-under-a-set", breaks: "a storage topic is retired that a shard set still delivers",
			file: "topic/retire.go",
			find: "		if storage < sole {\n", put: "		if storage <= sole {\n",
			pkg: ".", test: retired,
		},
		{
			name: "later-storage-topics-unseen", breaks: "what a subscription has yet to deliver of later storage topics is in no lag",
			file: "subscription/delivery/reshard.go",
			find: "		info.Lag += info.Later\n", put: "",
			pkg: ".", test: "TestAPausedSubscriptionFollowsWhenItGoesOn$",
		},
		{
			name: "reset-to-a-time-stays-here", breaks: "a reset to a time looks for it in the storage topic that is delivered alone",
			file: "consumer/target.go",
			find: "storage := doc.Left(); storage < doc.Produce; storage++", put: "storage := doc.Produce; storage < doc.Produce; storage++",
			pkg: ".", test: "TestAResetGoesToTheStorageTopicOfATime$",
		},
		{
			name: "reset-of-some-drops-earlier", breaks: "a reset of one partition that drops what is parked drops that of all partitions of earlier storage topics",
			file: grow,
			find: "next.Shed && !slices.Contains(next.Starts, AsItWas)", put: "next.Shed",
			pkg: "subscription", test: "TestAResetOfSomePartitionsLeavesNothingEarlierBehind$",
		},
		{
			name: "reset-forward-waits", breaks: "a reset to a later storage topic delivers first all that it was to pass over",
			file: grow,
			find: "s.Storage > before.Storage && s.Starts == nil", put: "s.Storage > before.Storage",
			pkg: "subscription", test: "TestAResetOfSomePartitionsLeavesNothingEarlierBehind$",
		},
		{
			name: "journal-that-went-back", breaks: "nobody is told that a journal has lost its end, and with it what was parked there",
			file: "subscription/whole.go",
			find: "	case from > b.Next:", put: "	case false:",
			pkg: "subscription", test: "TestAJournalIsNotWholeWithoutThePlaceItIsNeededFrom$",
		},
	}
}
