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
	}
}
