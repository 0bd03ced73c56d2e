package main

// registryMutants are bugs of the stores that keep who owns what.
func registryMutants() []mutant {
	return []mutant{
		{
			name: "epoch-reread-at-commit", breaks: "a fence that compares with what was just read can never refuse",
			file: "registry/checkpoint.go",
			find: "func (g *Group) checkpointTxn(w *CheckpointWrite, checks []Check, puts []Put) Txn {\n",
			put: "func (g *Group) checkpointTxn(w *CheckpointWrite, checks []Check, puts []Put) Txn {\n" +
				"	if e, err := g.r.Get(context.Background(), g.OwnerKey(w.Grant.Unit)); err == nil {\n		w.Grant.Version = e.Version\n	}\n",
			pkg: "registry", test: "TestClaimMovesTheEpochAndFencesTheFormerOwner$",
		},
		{
			name: "seek-done-twice", breaks: "a seek whose answer is lost takes back what was committed since",
			file: "registry/checkpoint.go",
			find: "		if u.Owner == o {\n", put: "		if u.Owner == o && u.Checkpoint != nil && u.Checkpoint.same(c) {\n",
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
			name: "registry-skips-the-fsync", breaks: "a claim that was acknowledged is undone by a power failure",
			file: "registry/fileregistry/syncer.go",
			find: "	return f.SyncData()\n", put: "	return nil\n",
			pkg: "registry/fileregistry", test: "TestAPowerLossAtEveryOperationKeepsWhatWasAcked$",
		},
	}
}
