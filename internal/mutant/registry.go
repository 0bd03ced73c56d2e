package main

// registryMutants are bugs of the stores that keep who owns what.
func registryMutants() []mutant {
	const deadlines = "TestConformance$/a_session's_deadline_counts_from_when_its_renewal_was_sent"
	return []mutant{
		{
			name: "epoch-reread-at-commit", breaks: "a fence that compares with what was just read can never refuse",
			file: "registry/checkpoint.go",
			find: "	t := g.CommitTxn(grant, stamped(c, grant.Epoch), after)\n",
			put: "	if e, err := g.r.Get(ctx, g.OwnerKey(grant.Unit)); err == nil {\n		grant.Version = e.Version\n	}\n" +
				"	t := g.CommitTxn(grant, stamped(c, grant.Epoch), after)\n",
			pkg: "registry", test: "TestClaimMovesTheEpochAndFencesTheFormerOwner$",
		},
		{
			name: "epochs-without-a-floor", breaks: "a store that was restored gives an epoch again that receivers have seen from another owner",
			file: "registry/epoch.go",
			find: "{ return max(last+1, now-epochZero) }", put: "{ return last + 1 }",
			pkg: "internal/nemesis", test: "TestNoEpochIsGivenAgainByAStoreThatWasRestored$/file",
		},
		{
			name: "handoffs-without-a-floor", breaks: "a handoff that a store has forgotten is made again to another owner in the same epoch",
			file: "group/core/unit.go",
			find: "owner := registry.Owner{Epoch: s.nextEpoch(n), After: u.grant.Epoch,", put: "owner := registry.Owner{Epoch: u.grant.Epoch + 1, After: u.grant.Epoch,",
			pkg: "group/core", test: "TestNoEpochIsBelowTheStoresTime$",
		},
		{
			name: "seek-done-twice", breaks: "a seek whose answer is lost takes back what was committed since",
			file: "registry/checkpoint.go",
			find: "		if u.Owner == o {\n", put: "		if u.Owner == o && u.Checkpoint.Positions[0].Next == to.Positions[0].Next {\n",
			pkg: "registry", test: "TestASeekThatWasNotAnsweredIsDoneOnce$",
		},
		{
			name: "session-put-not-fenced", breaks: "a member whose session has ended registers again in its name",
			file: "registry/internal/kv/kv.go",
			find: "		if p.Session != \"\" && !m.Alive(p.Session) {\n", put: "		if p.Session == \"-\" && !m.Alive(p.Session) {\n",
			pkg: "registry", test: "TestAFrozenMemberExpiresAndItsNextRegistrationIsRefused$",
		},
		{
			name: "check-of-absence-forgotten", breaks: "two processes create the same key",
			file: "registry/internal/kv/kv.go",
			find: "have != c.Version {\n", put: "have != c.Version && c.Version != \"\" {\n",
			pkg: "registry/memregistry", test: "TestConformance$",
		},
		{
			name: "lease-counted-from-the-answer", breaks: "a process goes on with its units while the store has ended its session already",
			file: "registry/internal/lease/moment.go",
			find: "	a := Asked{at: now(), link: link.Age()}\n	return a, send()\n", put: "	err := send()\n	return Asked{at: now(), link: link.Age()}, err\n",
			pkg: "registry/internal/lease", test: "TestATTLIsCountedFromWhenItWasAskedForHoweverLongTheAnswerTakes$",
		},
		{
			name: "memory-lease-from-the-answer", breaks: "as lease-counted-from-the-answer, on the memory registry",
			file: "registry/memregistry/session.go",
			find: "	opened, err := lease.Ask(nil, func() error {\n		if err := c.enter(ctx); err != nil {\n			return err\n		}\n",
			put:  "	if err := c.enter(ctx); err != nil {\n		return nil, err\n	}\n	opened, err := lease.Ask(nil, func() error {\n",
			pkg:  "registry/memregistry", test: deadlines,
		},
		{
			name: "registry-skips-the-fsync", breaks: "a claim that was acknowledged is undone by a power failure",
			file: "registry/fileregistry/doubt.go",
			find: "	if err = f.SyncData(); err != nil {\n", put: "	if err = error(nil); err != nil {\n",
			pkg: "registry/fileregistry", test: "TestAPowerLossAtEveryOperationKeepsWhatWasAcked$",
		},
		{
			name: "one-try-for-the-whole-lease", breaks: "a connection that swallows one request ends the session",
			file: "registry/internal/lease/lease.go",
			find: "context.WithTimeout(ctx, s.cfg.TTL/renewals)", put: "context.WithTimeout(ctx, s.cfg.TTL)",
			pkg: "registry/internal/lease", test: "TestASwallowedRequestLeavesTimeForAnother$",
		},
	}
}
