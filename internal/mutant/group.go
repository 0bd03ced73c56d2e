package main

// groupMutants are bugs of the group protocol and of the assignment.
func groupMutants() []mutant {
	const sim, simulation = "group/sim", "TestSimulation$"
	return []mutant{
		{
			name: "position-not-told-is-dropped", breaks: "a worker that tells of one partition takes the unit's others back to their beginning",
			file: "group/core/progress.go",
			find: "		next.Positions = merged(last.Positions, c.Positions)\n", put: "		_ = merged\n",
			pkg: "group/core", test: "TestWhatAWorkerTellsNothingOfStaysStored$",
		},
		{
			name: "over-with-the-first-partition", breaks: "what comes after a unit runs while it has records left in its second partition",
			file: "group/core/layout.go",
			find: "		if !u.Inputs[i].finishedBy(c) {\n			return false", put: "		if !u.Inputs[i].finishedBy(c) {\n			return i > 0",
			pkg: "group/core", test: "TestAUnitIsFinishedWhenAllThatItReadsIs$",
		},
		{
			name: "over-while-one-goes-on", breaks: "a unit is passed though records still come to its second partition",
			file: "group/core/layout.go",
			find: "	if p.End <= 0 {\n		return p.End == 0\n", put: "	if p.End <= 0 {\n		return true\n",
			pkg: "group/core", test: "TestAUnitGoesOnWhileAnyPartitionOfItDoes$",
		},
		{
			name: "seek-drops-other-positions", breaks: "a seek in one partition takes the unit's others back to their beginning",
			file: "registry/checkpoint.go",
			find: "		if to.Position(p.Storage, p.Partition) == nil {\n", put: "		if to.Position(p.Storage, p.Partition) == nil && to.From > 0 {\n",
			pkg: "registry", test: "TestASeekInOnePartitionLeavesTheOthersWhereTheyAre$",
		},
		{
			name: "seek-takes-others-back", breaks: "a seek in one partition undoes what the owner commits in another at that moment",
			file: "registry/checkpoint.go",
			find: "	return to, []Check{{Key: e.Key, Version: e.Version}}, nil\n", put: "	_ = e\n	return to, nil, nil\n",
			pkg: "registry", test: "TestASeekTakesNothingBackInOtherPartitions$",
		},
		{
			name: "seek-too-large-to-store", breaks: "a unit with many finished ranges can't be sent anywhere",
			file: "registry/checkpoint.go",
			find: "		put := g.putCheckpoint(Grant{Unit: unit, Epoch: o.Epoch}, stamped(c, o.Epoch))\n",
			put:  "		put := Put{Key: g.CheckpointKey(unit), Value: stamped(c, o.Epoch).Encode()}\n",
			pkg:  "registry", test: "TestASeekStoresOnlyWhatCanBeRead$",
		},
		{
			name: "member-of-another-layout", breaks: "two members make other units of one topic, and both read a partition, or none does",
			file: "group/core/view.go",
			find: "	case m.Layout != s.cfg.LayoutName:\n", put: "	case m.Layout != s.cfg.LayoutName && m.Format > 1:\n",
			pkg: "group/core", test: "TestWrongGroupEndsTheMember$",
		},
		{
			name: "retires-units-of-another-layout", breaks: "units that are at work go with a storage topic that they do not read",
			file: "registry/retire.go",
			find: " || m.Layout != \"\" {\n", put: " || m.Layout == \"-\" {\n",
			pkg: "registry", test: "TestARetirementTakesNoUnitsOfAnotherLayout$",
		},
		{
			name: "past-by-another-layout", breaks: "a storage topic is retired though nobody knows whether a group has finished it",
			file: "topic/retire.go",
			find: "	if st.Meta.Layout != \"\" {", put: "	if st.Meta.Layout == \"-\" {",
			pkg: "topic", test: "TestOnlyWhatCanDeliverNothingIsRetired$",
		},
		{
			name: "carries-units-of-another-layout", breaks: "a cut-over drops the progress of units that it takes for retired ones",
			file: "mirror/cutover.go",
			find: "		if meta.Layout != \"\" {", put: "		if meta.Layout == \"-\" {",
			pkg: "mirror", test: "TestACutOverRefusesAGroupOfAnotherLayout$",
		},
		{
			name: "hold-of-the-last-unit", breaks: "retention drops what one of two units that are in a partition still needs",
			file: "registry/checkpoint.go",
			find: "			if !told[p.Partition] || p.Next < offsets[p.Partition] {\n", put: "			if !told[p.Partition] || true {\n",
			pkg: "registry", test: "TestTheLowestNeededIsTheLowestOfAllUnits$",
		},
		{
			name: "hold-of-the-first-input", breaks: "retention drops what a unit needs of its second partition, or keeps it for ever",
			file: "registry/checkpoint.go",
			find: "		for _, p := range u.Checkpoint.Positions {\n			if p.Storage != storage", put: "		for _, p := range u.Checkpoint.Positions[:1] {\n			if p.Storage != storage",
			pkg: "registry", test: "TestTheLowestNeededIsTheLowestOfAllUnits$",
		},
		{
			name: "two-positions-in-one-partition", breaks: "a damaged checkpoint is at two places, and who reads it decides at which",
			file: "registry/decode.go",
			find: "		if !inOrder && before", put: "		if inOrder && before",
			pkg: "registry", test: "TestACheckpointWithPositionsThatNobodyCanHaveStoredIsRefused$",
		},
		{
			name: "handoff-is-called-clean", breaks: "a unit whose handlers were stopped, and that is handed over then, is said to repeat nothing",
			file: "group/core/unit.go",
			find: "	if s.units[n].cut {", put: "	if s.units[n].cut && s.leaving {",
			pkg: "group/core", test: "TestHandlersAreCancelledAtTheDrainDeadline$",
		},
		{
			name: "given-to-who-drains", breaks: "a unit that hangs goes to a member that is to have none, and moves twice",
			file: "group/core/view.go",
			find: "	return i, ok && !s.view.Members[i].Draining\n", put: "	return i, ok\n",
			pkg: "group/core", test: "TestAUnitThatHangsIsNotGivenToAMemberThatDrains$",
		},
		{
			name: "rest-not-ended-by-progress", breaks: "after a quiet time progress is stored a second late",
			file: "group/pace.go",
			find: "		case p.wake <- struct{}{}:\n", put: "		case make(chan struct{}) <- struct{}{}:\n",
			pkg: "group", test: "TestProgressAfterARestIsStoredAsSoonAsAnyOther$",
		},
		{
			name: "first-join-was-never-tried", breaks: "a member whose join was not answered goes on with what was its own before",
			file: "group/core/session.go",
			find: "		if s.tried > 1 {\n", put: "		if s.everJoined {\n",
			pkg: "group/core", test: "TestMemberWhoseJoinWasNotAnsweredLooksAgainBeforeItGoesOn$",
		},
		{
			name: "commit-without-the-fence", breaks: "a replaced owner overwrites the checkpoint of its successor",
			file: "registry/protocol.go",
			find: "{{Key: g.OwnerKey(grant.Unit), Version: grant.Version}, {Key: put.Key, Version: after}},\n",
			put:  "{{Key: put.Key, Version: after}, {Key: put.Key, Version: after}},\n",
			pkg:  sim, test: simulation,
		},
		{
			name: "epoch-not-incremented", breaks: "two owners have the same fencing token",
			file: "group/core/unit.go",
			find: "Epoch: s.nextEpoch(n), After: v.Owner.Epoch, Reason: why", put: "Epoch: max(v.Owner.Epoch, 1), After: v.Owner.Epoch, Reason: why",
			pkg: sim, test: simulation,
		},
		{
			name: "handover-before-drain", breaks: "records are in flight at two members after a clean move",
			file: "group/core/unit.go",
			find: "			s.drain(n, \"moves to \"+target+\": \"+s.plan.reason)\n", put: "			s.handoff(n, target, s.plan.reason)\n",
			pkg: sim, test: simulation,
		},
		{
			name: "handover-without-checkpoint", breaks: "a clean move repeats what was finished since the last commit",
			file: "registry/protocol.go",
			find: "		t.Puts = append(t.Puts, g.putCheckpoint(h.Grant, *h.Last))\n",
			put:  "		t.Puts = append(t.Puts, Put{Key: g.CheckpointKey(h.Grant.Unit) + \".\"})\n",
			pkg:  sim, test: simulation,
		},
		{
			name: "claim-with-an-old-checkpoint", breaks: "a claim starts from a checkpoint that was read before the last commit",
			file: "registry/protocol.go",
			find: "			{Key: g.CheckpointKey(c.Unit), Version: c.Checkpoint},\n", put: "",
			pkg: sim, test: simulation,
		},
		{
			name: "lease-not-watched", breaks: "a member that can't renew goes on after others took its units",
			file: "group/core/session.go",
			find: "if s.session != \"\" && s.now >= s.leaseEnd() {", put: "if s.session != \"\" && s.now >= s.leaseEnd()+s.cfg.SessionTTL {",
			pkg: sim, test: simulation,
		},
		{
			name: "lost-while-it-drains", breaks: "the handlers of a unit that is fenced while it drains, or whose member loses its session, are not cancelled",
			file: "group/core/unit.go",
			find: "	if u.worker != running && u.worker != draining {\n", put: "	if u.worker != running {\n",
			pkg: sim, test: simulation,
		},
		{
			name: "cancel-after-a-drain-ignored", breaks: "a worker that was told to drain is not cancelled any more",
			file: "group/effect.go",
			find: "		if u := m.unit(e.Unit, e.Run); u != nil {\n			u.cancel", put: "		if u := m.unit(e.Unit, e.Run); u != nil && !u.revoked {\n			u.cancel",
			pkg: ".", test: "TestHandlersAreCancelledWhenTheirUnitIsLostWhileItDrains$",
		},
		{
			name: "lease-without-a-margin", breaks: "handlers still run at the moment from which others may take their units",
			file: "group/core/session.go",
			find: "	return s.lease - margin\n", put: "	return s.lease - margin + margin\n",
			pkg: sim, test: simulation,
		},
		{
			name: "static-member-expired-though-back", breaks: "a static member that is back in time loses its place",
			file: "registry/protocol.go",
			find: "{{Key: g.MemberKey(member), Version: stray}, {Key: g.MetaKey(), Version: meta}},\n", put: "{{Key: g.MetaKey(), Version: meta}},\n",
			pkg: sim, test: simulation,
		},
		{
			name: "end-of-another-run", breaks: "a worker goes on though its unit is started again, from where another run got",
			file: "group/core/progress.go",
			find: "	if u.run != ev.Run || u.worker == none {\n", put: "	if u.worker == none {\n",
			pkg: sim, test: simulation,
		},
		{
			name: "pause-of-another-unit", breaks: "a pause stops another partition than the one that was asked for",
			file: "group/core/view.go",
			find: "		if p == n {\n", put: "		if p == n+1 {\n",
			pkg: sim, test: simulation,
		},
		{
			name: "no-doubt", breaks: "a write that the store lost when it failed over is believed, and nobody works on the unit",
			file: "group/core/entry.go",
			find: "has == before && seen > w.sent\n", put: "has == before && seen < w.sent\n",
			pkg: "group/core", test: "TestAWriteThatAReadingContradictsIsLookedAtAgain$",
		},
		{
			name: "repeated-answer-believed", breaks: "an answer that comes twice changes the state twice",
			file: "group/core/view.go",
			find: "	if ev.ID != s.loading {\n		return\n	}\n", put: "",
			pkg: sim, test: simulation,
		},
		{
			name: "spare-units-in-name-order", breaks: "sticky assignment moves more units than needed",
			file: "assign/sticky.go",
			find: "		if len(p.held[i]) > p.ent.share[i] {\n", put: "		if len(p.held[i]) > p.ent.share[i]+1 {\n",
			pkg: "assign", test: "TestStickyMovesNoMoreThanTheBound$",
		},
		{
			name: "surplus-not-given-up", breaks: "members are out of balance by more than one",
			file: "assign/sticky.go",
			find: "		surplus := len(units) - p.ent.share[i]\n", put: "		surplus := len(units) - p.ent.share[i] - 1\n",
			pkg: "assign", test: "TestPropertiesOfEveryRule$",
		},
	}
}
