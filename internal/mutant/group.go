package main

// groupMutants are bugs of the group protocol and of the assignment.
func groupMutants() []mutant {
	const sim, simulation = "group/sim", "TestSimulation$"
	return []mutant{
		{
			name: "rest-not-ended-by-progress", breaks: "after a quiet time progress is stored a second late",
			file: "group/pace.go",
			find: "		case p.stirred <- struct{}{}:\n", put: "		case make(chan struct{}) <- struct{}{}:\n",
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
			file: "group/core/progress.go",
			find: "				{Key: g.OwnerKey(n), Version: u.grant.Version},\n", put: "				{Key: g.CheckpointKey(n), Version: u.stored},\n",
			pkg: sim, test: simulation,
		},
		{
			name: "epoch-not-incremented", breaks: "two owners have the same fencing token",
			file: "group/core/unit.go",
			find: "Epoch: max(v.Owner.Epoch, u.seen) + 1, Reason: why", put: "Epoch: max(v.Owner.Epoch, 1), Reason: why",
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
			file: "group/core/unit.go",
			find: "		w.txn.Puts = append(w.txn.Puts, s.putCheckpoint(n))\n", put: "",
			pkg: sim, test: simulation,
		},
		{
			name: "claim-with-an-old-checkpoint", breaks: "a claim starts from a checkpoint that was read before the last commit",
			file: "group/core/unit.go",
			find: "			{Key: g.CheckpointKey(n), Version: v.CheckpointVersion},\n			{Key: g.MemberKey(s.cfg.Member)", put: "			{Key: g.MemberKey(s.cfg.Member)",
			pkg: sim, test: simulation,
		},
		{
			name: "lease-not-watched", breaks: "a member that can't renew goes on after others took its units",
			file: "group/core/session.go",
			find: "if s.session != \"\" && s.now >= s.leaseEnd() {", put: "if s.session != \"\" && s.now >= s.leaseEnd()+s.cfg.SessionTTL {",
			pkg: sim, test: simulation,
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
