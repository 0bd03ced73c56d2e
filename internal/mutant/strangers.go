package main

// strangerMutants are bugs that let others on the same host, in the same store or in a message do
// what is not theirs to do.
func strangerMutants() []mutant {
	return []mutant{
		{
			name: "direction-turns", breaks: "a name turns the direction of the text, and a row of a table reads as another one",
			file: "internal/visible/visible.go",
			find: "	return unicode.IsGraphic(r) &&", put: "	return !unicode.IsControl(r) &&",
			pkg: "internal/visible", test: "TestWhatATerminalWouldObeyIsShown$",
		},
		{
			name: "value-acts-on-the-terminal", breaks: "a record that is looked at sets the title of the terminal, or worse",
			file: "internal/cli/output.go",
			find: "	if isTerminal(a.stdout) {\n		return a.stdout\n", put: "	if false {\n		return a.stdout\n",
			pkg: "internal/cli", test: "TestATerminalObeysNoStranger$",
		},
		{
			name: "token-is-shown", breaks: "a token that stands in a URL as the user is shown in messages",
			file: "internal/storeurl/storeurl.go",
			find: "; password == \"\" {\n", put: "; password == u.Scheme {\n",
			pkg: "internal/storeurl", test: "TestNoFormOfAURLShowsASecret$",
		},
		{
			name: "commands-get-the-passwords", breaks: "the command of consume --exec gets the URLs of the stores, with passwords",
			file: "internal/cli/consume.go",
			find: "		if !f.execStores {\n", put: "		if false {\n",
			pkg: "internal/cli", test: "TestScripts$/^consume$",
		},
		{
			name: "registry-is-for-all", breaks: "another user of the host reads the registry in SQLite, and stops it with one lock",
			file: "registry/sqlregistry/sqlitefiles.go",
			find: "	if err := makePrivate(live); err != nil {\n", put: "	if err := error(nil); err != nil {\n",
			pkg: "registry/sqlregistry", test: "TestFilesOfSQLiteAreForTheirOwnerAlone$",
		},
		{
			name: "directory-is-for-all", breaks: "another user of the host lists the topics of a directory",
			file: "commitlog/filelog/layout.go",
			find: "l.fs.MkdirAll(dir, 0o700)", put: "l.fs.MkdirAll(dir, 0o755)",
			pkg: ".", test: "TestADataDirectoryIsForItsOwnerAlone$",
		},
		{
			name: "directory-of-others", breaks: "a data directory or file that another user owns is believed",
			file: "internal/vfs/os_private.go",
			find: "	if who := strange(info); who != \"\" {\n		return", put: "	if who := strange(info); who == info.Name() {\n		return",
			pkg: ".", test: "TestADirectoryOfAnotherUserIsRefused$",
		},
		{
			name: "files-that-others-can-open", breaks: "a data directory or file that every user can open is believed",
			file: "internal/vfs/os_private.go",
			find: "kernel && info.Mode().Perm()&0o077 != 0", put: "kernel && info.Mode().Perm()&0o022 != 0",
			pkg: ".", test: "TestADirectoryThatOthersCanOpenIsRefusedWithWhatMendsIt$",
		},
		{
			name: "topic-of-others", breaks: "the files of a topic are believed, whoever can write to them",
			file: "commitlog/filelog/store.go",
			find: "	if err := c.checkPrivate(fsys, topicDir(name)); err != nil {\n", put: "	if err := c.checkPrivate(fsys); err != nil {\n",
			pkg: ".", test: "TestADirectoryThatOthersCanOpenIsRefusedWithWhatMendsIt$",
		},
		{
			name: "ca-for-nothing", breaks: "a CA is given and no server is held against it, in silence",
			file: "internal/storeurl/tls.go",
			find: "	if unverified != \"\" {\n", put: "	if unverified == u.Scheme {\n",
			pkg: "internal/storeurl", test: "TestACAIsUsedOrTheMistakeIsTold$",
		},
		{
			name: "configuration-is-for-all", breaks: "every user reads the passwords of a configuration file",
			file: "internal/storeurl/password.go",
			find: "	if open == 0 &&", put: "	if open < 0o100 &&",
			pkg: "internal/cli", test: "TestAConfigurationFileWithAPasswordIsForItsOwnerAlone$",
		},
		{
			name: "password-is-for-all", breaks: "every user reads the file of a password",
			file: "internal/storeurl/password.go",
			find: "	if who := ForOthers(info); who != \"\" {\n", put: "	if who := ForOthers(info); who == path {\n",
			pkg: "internal/storeurl", test: "TestAPasswordFileIsForItsOwnerAloneAndNotShown$",
		},
		{
			name: "password-is-read-once", breaks: "who rotates a password has to start every process again",
			file: "registry/pgregistry/pgregistry.go",
			find: "	pc.BeforeConnect = s.setPassword\n", put: "",
			pkg: "registry/pgregistry", test: "TestThePasswordFileIsReadForEachConnection$",
		},
		{
			name: "strict-is-polite", breaks: "a password goes to another host without TLS though that was forbidden",
			file: "internal/storeurl/password.go",
			find: "		if strict {\n", put: "		if strict && log == nil {\n",
			pkg: "internal/storeurl", test: "TestALoginWithoutTLSIsToldOnceOrRefused$",
		},
		{
			name: "tls-may-give-way", breaks: "strict TLS takes a URL of PostgreSQL with which the server turns TLS off",
			file: "registry/pgregistry/url.go",
			find: "	for _, f := range cc.Fallbacks {\n", put: "	for _, f := range cc.Fallbacks[:0] {\n",
			pkg: "registry/pgregistry", test: "TestStrictTLSRefusesALoginThatMayGoInTheClear$",
		},
		{
			name: "login-as-the-server-likes", breaks: "a server gets a password in the clear though require_auth forbids it",
			file: "registry/pgregistry/requireauth.go",
			find: "	if !slices.Contains(g.allowed, method) {\n", put: "	if g.over && !slices.Contains(g.allowed, method) {\n",
			pkg: "registry/pgregistry", test: "TestALoginThatIsNotAllowedGetsNoAnswer$",
		},
		{
			name: "help-into-nothing", breaks: "a script that keeps the help or a completion takes half of it for all",
			file: "internal/visible/visible.go",
			find: "		v.failed.CompareAndSwap(nil, &err)\n", put: "",
			pkg: "internal/cli", test: "TestWhatCouldNotBePrintedIsAFailure$",
		},
		{
			name: "greeting-for-ever", breaks: "a wrong port of MariaDB is waited for more than a minute, and told as a time-out",
			file: "registry/sqlregistry/mysql.go",
			find: "context.WithTimeoutCause(ctx, c.patience,", put: "context.WithTimeoutCause(ctx, 100*c.patience,",
			pkg: "registry/sqlregistry", test: "TestAPortThatSpeaksSomethingElseIsToldSoon$",
		},
		{
			name: "link-to-nowhere", breaks: "with a disk that is not mounted a directory is told to be empty",
			file: "builtin.go",
			find: "	if noLink == nil && errors.Is(absent,", put: "	if noLink == nil && absent == nil && errors.Is(absent,",
			pkg: "internal/cli", test: "TestScripts$/^usage$",
		},
		{
			name: "notice-forgets", breaks: "a program is given to others without the licences of what is in it",
			file: "internal/notice/main.go",
			find: "for i := len(programs) - 1; i >= 0; i-- {", put: "for i := len(programs) - 2; i >= 0; i-- {",
			pkg: "internal/notice", test: "TestTheNoticeNamesAllThatIsLinked$",
		},
		{
			name: "records-of-others", breaks: "a definition in one namespace has the records of another one deleted",
			file: "topic/document.go",
			find: "		if name != want {\n", put: "		if name == \"\" {\n",
			pkg: "topic", test: "TestADefinitionNamesTheRecordsOfNoOtherTopic$",
		},
		{
			name: "fates-of-nothing", breaks: "who listens in the place of an etcd ends every process that asks it",
			file: "registry/etcdregistry/answer.go",
			find: "	if len(a.Responses) != len(ops) {\n", put: "	if len(a.Responses) > len(ops) {\n",
			pkg: "registry/etcdregistry", test: "TestAStrangersAnswersEndNoProcess$",
		},
		{
			name: "keys-of-others", breaks: "who listens in the place of an etcd ends every process that lists a group",
			file: "registry/etcdregistry/answer.go",
			find: "		if !inside {\n", put: "		if !inside && kv == nil {\n",
			pkg: "registry/etcdregistry", test: "TestAStrangersAnswersEndNoProcess$",
		},
		{
			name: "password-to-whom-a-server-names", breaks: "a server on this host has passwords sent in the clear to another one, where that is forbidden",
			file: "registry/redisregistry/conn.go",
			find: "	if t == nil && c.strict {\n", put: "	if t == nil && c.strict && c.closed {\n",
			pkg: "registry/redisregistry", test: "TestNoPasswordGoesInTheClearToAServerThatAnotherOneNames$",
		},
		{
			name: "login-at-whom-a-broker-names", breaks: "a broker on this host has passwords sent in the clear to another one, where that is forbidden",
			file: "commitlog/kafkalog/config.go",
			find: "	case c.StrictTLS && len(c.Client) == 0 &&", put: "	case c.StrictTLS && len(c.Client) > 0 &&",
			pkg: "commitlog/kafkalog", test: "TestNoLoginGoesInTheClearToABrokerThatAnotherOneNames$",
		},
		{
			name: "row-of-any-size", breaks: "one row of somebody else's in a registry in SQL fills the memory of every process that lists",
			file: "registry/sqlregistry/mysql.go",
			find: "SUBSTR(e.content, 1, %d)\", registry.MaxValueBytes+1)", put: "SUBSTR(e.content, 1, %d)\", registry.MaxValueBytes<<8)",
			pkg: "registry/sqlregistry", test: "TestAValueThatNoneOfUsWroteIsNotReadAsAWhole$",
		},
		{
			name: "server-declares-any-size", breaks: "who listens in the place of a PostgreSQL fills the memory of every process",
			file: "registry/pgregistry/url.go",
			find: "		f.SetMaxBodyLen(limits.PostgresMessageBytes)\n", put: "		f.SetMaxBodyLen(limits.PostgresMessageBytes << 8)\n",
			pkg: "registry/pgregistry", test: "TestAServerDeclaresNoMoreThanWeTake$",
		},
		{
			name: "owner-by-another-name", breaks: "an entry that somebody else wrote keeps a member claiming the same unit for ever",
			file: "registry/group.go",
			find: " || e.Key != g.OwnerKey(n) {\n", put: " {\n",
			pkg: "registry", test: "TestAnEntryUnderAnotherNameIsStrange$",
		},
		{
			name: "login-byte-by-byte", breaks: "a Redis server that says a byte now and then is waited for, for ever",
			file: "registry/redisregistry/redisregistry.go",
			find: "	stop := context.AfterFunc(bounded, conns.close)\n", put: "	stop := context.AfterFunc(ctx, conns.close)\n",
			pkg: "registry/redisregistry", test: "TestAServerThatSaysAByteNowAndThenIsGivenUp$",
		},
		{
			name: "database-of-others", breaks: "files of a registry in SQLite are believed, whoever can lock them",
			file: "registry/sqlregistry/sqlitemode.go",
			find: "return name == base || strings.HasPrefix(name, base+\"-\")", put: "return strings.HasPrefix(name, base+\"/\")",
			pkg: "registry/sqlregistry", test: "TestFilesOfSQLiteThatOthersCanOpenAreRefused$",
		},
	}
}
