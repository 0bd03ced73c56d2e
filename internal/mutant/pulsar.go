package main

// pulsarMutants are bugs of the log in Pulsar, whose module is its own.
func pulsarMutants() []mutant {
	const pulsar = "commitlog/pulsarlog"
	return []mutant{
		{
			name: "answer-without-end", breaks: "who listens in the place of Pulsar's web service fills the memory of every process",
			file: pulsar + "/web.go",
			find: "io.LimitReader(resp.Body, limits.PulsarAnswerBytes+1)", put: "io.LimitReader(resp.Body, 2*limits.PulsarAnswerBytes)",
			pkg: pulsar, test: "TestAnAnswerWithoutEndIsGivenUp$",
		},
		{
			name: "token-follows-out-of-tls", breaks: "a broker's redirect to itself without TLS has the token sent in the clear",
			file: pulsar + "/web.go",
			find: "		req.Header.Del(\"Authorization\")", put: "		req.Header.Del(\"Authentication\")",
			pkg: pulsar, test: "TestATokenFollowsARedirectOnlyWhereItMayGo$",
		},
		{
			name: "token-follows-a-lookup", breaks: "a broker on this host that names one on another has the token sent there in the clear, though TLS is strict",
			file: pulsar + "/logins.go",
			find: "		l.refused = away\n", put: "		l.told = true\n",
			pkg: pulsar, test: "TestATokenFollowsALookupOnlyWhereItMayGo$",
		},
		{
			name: "address-of-a-login-not-heard", breaks: "where a client connects to is not looked at, and the token goes anywhere",
			file: pulsar + "/logins.go",
			find: "	case !known:\n", put: "	case known && refused != nil:\n",
			pkg: pulsar, test: "TestNoTokenIsGivenOutWhenNobodySaysForWhom$",
		},
		{
			name: "token-to-a-web-service", breaks: "a broker that says that its cluster has moved has the token sent to a web service of its choice",
			file: pulsar + "/logins.go",
			find: "	return nil, fmt.Errorf(\"a broker named the web service %s in its place: %w\", r.URL.Host, fault.Invalid)\n",
			put:  "	r.Header.Set(\"Authorization\", \"Bearer \"+t.logins.config.Token)\n	return t.Transport().RoundTrip(r)\n",
			pkg:  pulsar, test: "TestATokenGoesToNoWebServiceThatABrokerNames$",
		},
		{
			name: "pulsar-end-by-statistics", breaks: "a reader of a partition that is being sealed stops before records that were acknowledged",
			file: pulsar + "/seal.go",
			find: "		end, err := p.admin().end(ctx, p.name)\n", put: "		ledger, entry, err := parsePosition(s.LastConfirmed)\n		end := &position{Ledger: ledger, Entry: entry}\n",
			pkg: pulsar, test: "TestASealedPartitionEndsWhereTheBrokerHasWrittenItDown$",
		},
		{
			name: "pulsar-sealed-is-absent", breaks: "an append that is repeated after a switch is called absent though it is stored, and is stored twice",
			file: pulsar + "/sender.go",
			find: "		first, err = w.recall(s.name, it.producer.Sequence)\n", put: "		w.past = nil\n",
			pkg: pulsar, test: "TestASealedPartitionTellsAnybodyWhatItHas$", server: "pulsar",
		},
		{
			name: "pulsar-damaged-hold-holds-nothing", breaks: "retention on Pulsar drops what a group needs whose hold can't be read",
			file: pulsar + "/retain.go",
			find: "err != nil || partition >= len(offsets) {\n", put: "err != nil || partition >= len(offsets) {\n			continue\n		} else if partition < 0 {\n",
			pkg: pulsar, test: "TestADamagedHoldStopsRetention$",
		},
		{
			name: "pulsar-first-web-host", breaks: "a first host of Pulsar's web service that is down takes all topics with it",
			file: pulsar + "/web.go",
			find: "		if begun == len(w.bases) || ", put: "		if begun == 1 || ",
			pkg: pulsar, test: "TestOnlyTheClustersOwnAnswerEndsTheRoundOfHosts$",
		},
		{
			name: "pulsar-done-by-a-dead-host", breaks: "a topic that a host deleted before it died is told as one that was not there",
			file: pulsar + "/web.go",
			find: "	case others && method", put: "	case false && others && method",
			pkg: pulsar, test: "TestOnlyTheClustersOwnAnswerEndsTheRoundOfHosts$",
		},
		{
			name: "pulsar-retention-by-groups", breaks: "a topic of Pulsar that no group consumes keeps everything, whatever its retention is",
			file: pulsar + "/retain.go",
			find: "		err := t.retain(ctx)\n", put: "		var err error\n",
			pkg: pulsar, test: "TestRetentionNeedsNoGroups$", server: "pulsar",
		},
		{
			name: "pulsar-open-ledger-is-empty", breaks: "topic alter says that nothing goes of what was written last",
			file: pulsar + "/measure.go",
			find: "			l.Entries, l.Size = s.CurrentEntries, s.CurrentSize\n", put: "			continue\n",
			pkg: pulsar, test: "TestAPartitionIsMeasuredByWhatTheBrokerTells$", server: "pulsar",
		},
		{
			name: "pulsar-late-trim-counts", breaks: "of two processes that trim a partition of Pulsar the later one moves its beginning back, below records that are gone",
			file: pulsar + "/trim.go",
			find: "		if at > first {\n", put: "		if at < first || first == 0 {\n",
			pkg: pulsar, test: "TestTheHighestTrimCounts$",
		},
		{
			name: "pulsar-late-cursor-stays", breaks: "of two processes that trim a partition of Pulsar the later one makes the broker keep what the other has dropped",
			file: pulsar + "/trim.go",
			find: "		if first > before {\n", put: "		if first < 0 {\n",
			pkg: pulsar, test: "TestATrimThatComesLateMovesNothingBack$", server: "pulsar",
		},
	}
}
