package main

// certainMutants are bugs of what stores' errors are believed to mean, and of rings.
func certainMutants() []mutant {
	const etcd, redis = "registry/etcdregistry", "registry/redisregistry"
	return []mutant{
		{
			name: "etcd-no-space-is-a-refusal", breaks: "a transaction that etcd applied, and found no space after, is called undone",
			file: etcd + "/kind.go",
			find: "	rpctypes.ErrTooManyRequests: {},\n", put: "	rpctypes.ErrTooManyRequests: {},\n	rpctypes.ErrNoSpace: {},\n",
			pkg: etcd, test: "TestOnlyWhatTheTableNamesIsCertain$",
		},
		{
			name: "etcd-believes-a-code", breaks: "what a proxy answers is taken for etcd's word that a transaction was not applied",
			file: etcd + "/kind.go",
			find: "	return oversize(err)\n}\n", put: "	return status.Code(err) == codes.ResourceExhausted\n}\n",
			pkg: etcd, test: "TestOnlyWhatTheTableNamesIsCertain$",
		},
		{
			name: "etcd-full-is-not-read", breaks: "whatever is sent to a full etcd is called undone, though it may be what filled it",
			file: etcd + "/settle.go",
			find: "s.revision(ctx) == before", put: "s.revision(ctx) >= before",
			pkg: etcd, test: "TestAFullEtcdHasAppliedNothingWhileItsRevisionStays$", server: "etcd",
		},
		{
			name: "redis-half-a-script-is-a-refusal", breaks: "a transaction of which Redis wrote one half is called undone",
			file: redis + "/errors.go",
			find: "errors.As(err, &refused) && midway(refused.Error()):", put: "errors.As(err, &refused) && false:",
			pkg: redis, test: "TestARefusalInTheMiddleOfTheScriptIsUnknown$", server: "redis",
		},
		{
			name: "ring-starts-beside-its-earlier-self", breaks: "a member that is started again says yes while the earlier start, cut off, still does",
			file: "ring/table.go",
			find: "		case errors.Is(err, ErrNotFound) || err == nil && there.Incarnation == t.r.cfg.Incarnation:\n", put: "		case errors.Is(err, ErrNotFound) || err == nil:\n",
			pkg: "ring", test: "TestAnExclusiveMemberThatIsStartedAgainWaitsForTheEarlierStart$",
		},
		{
			name: "ring-epochs-without-a-floor", breaks: "a store that went back gives an epoch of a ring again to another member",
			file: "ring/document.go",
			find: "epoch := registry.NextEpoch(max(d.Epoch, floor), now)\n", put: "epoch := max(d.Epoch, floor) + 1\n",
			pkg: "ring", test: "TestNoEpochOfARingIsGivenAgainByAStoreThatWentBack$",
		},
		{
			name: "ring-established-by-an-earlier-decision", breaks: "a member is said to have its part when nobody has decided on it yet",
			file: "ring/table.go",
			find: "		if !slices.Contains(st.Assignment.Members, m.ID+\"@\"+m.Incarnation) {", put: "		if !slices.Contains(st.Assignment.Members, m.ID+\"@\"+m.Incarnation) && m.ID == \"\" {",
			pkg: "ring", test: "TestAMemberIsEstablishedByADecisionThatKnowsIt$",
		},
		{
			name: "ring-older-start-takes-the-place", breaks: "of two starts of a member the one that began first wins when it is slow",
			file: "ring/start.go",
			find: "		case err == nil:\n			return versions[0], nil\n", put: "		case err == nil && len(versions) < 0:\n			return versions[0], nil\n		case err == nil:\n			continue\n",
			pkg: "ring", test: "TestOfTwoStartsTheLaterWins$",
		},
		{
			name: "ring-checks-every-dead-member", breaks: "a ring of many dead members locks itself out: no store takes so many checks",
			file: "ring/anchor.go",
			find: "	t := a.write(st, next)\n	key := a.r.keys.member(cfg.Member)\n	t.Checks = append(t.Checks, registry.Check{Key: key, Version: st.entries[cfg.Member].Version},\n",
			put:  "	t := a.write(st, next)\n	for n := 0; st.doc != nil && n < len(st.doc.Members)-len(live); n++ {\n		t.Checks = append(t.Checks, t.Checks[0])\n	}\n	key := a.r.keys.member(cfg.Member)\n	t.Checks = append(t.Checks, registry.Check{Key: key, Version: st.entries[cfg.Member].Version},\n",
			pkg:  "ring", test: "TestNoTransactionGrowsWithTheDead$",
		},
		{
			name: "lease-of-five-seconds-everywhere", breaks: "a takeover on etcd takes five seconds and more unless somebody asks for less",
			file: "group/config.go",
			find: "setDefault(&c.SessionTTL, c.Registry.SessionTTL())", put: "setDefault(&c.SessionTTL, 5*time.Second)",
			pkg: "group", test: "TestTheTTLOfTheStoreIsTheDefault$",
		},
	}
}
