package main

// wireStoreMutants are bugs that let whoever listens in the place of a PostgreSQL or an etcd fill or keep a
// process that asks it.
func wireStoreMutants() []mutant {
	return []mutant{
		{
			name: "rows-of-postgres-without-end", breaks: "who listens in the place of a PostgreSQL fills the memory with rows",
			file: "registry/pgregistry/answer.go",
			find: "a.rows > limits.PostgresAnswerRows {", put: "a.rows < 0 {",
			pkg: "registry/pgregistry", test: "TestAnAnswerIsCountedHoweverItIsCut$",
		},
		{
			name: "settings-of-postgres-without-end", breaks: "who listens in the place of a PostgreSQL fills the memory with settings",
			file: "registry/pgregistry/answer.go",
			find: "a.others > limits.PostgresAnswerNotices {", put: "a.others < 0 {",
			pkg: "registry/pgregistry", test: "TestAnAnswerIsCountedHoweverItIsCut$",
		},
		{
			name: "answer-of-postgres-without-end", breaks: "who listens in the place of a PostgreSQL fills the memory with one answer",
			file: "registry/pgregistry/answer.go",
			find: "a.bytes > limits.PostgresAnswerBytes {", put: "a.bytes < 0 {",
			pkg: "registry/pgregistry", test: "TestAnAnswerIsCountedHoweverItIsCut$",
		},
		{
			name: "counts-over-requests", breaks: "a connection to PostgreSQL is given up after so many rows, however many requests they answer",
			file: "registry/pgregistry/answer.go",
			find: "	if a.fresh.CompareAndSwap(true, false) {\n", put: "	if a.fresh.CompareAndSwap(true, false) && a.have < 0 {\n",
			pkg: "registry/pgregistry", test: "TestAnAnswerIsCountedHoweverItIsCut$",
		},
		{
			name: "postgres-unbounded", breaks: "what a PostgreSQL server says is not counted",
			file: "registry/pgregistry/url.go",
			find: "		f := build(bound, bound)\n", put: "		f := build(bound.from, bound.to)\n",
			pkg: "registry/pgregistry", test: "TestAServerThatSaysMoreAndMoreIsGivenUp$",
		},
		{
			name: "login-at-etcd-past-the-time-out", breaks: "an etcd that does not answer a login is waited for, past --timeout and SIGTERM",
			file: "registry/etcdregistry/etcdregistry.go",
			find: "	stop := context.AfterFunc(ctx, giveUp)\n", put: "	stop := context.AfterFunc(context.WithoutCancel(ctx), giveUp)\n",
			pkg: "registry/etcdregistry", test: "TestALoginThatIsNotAnsweredEndsWithItsContext$",
		},
	}
}
