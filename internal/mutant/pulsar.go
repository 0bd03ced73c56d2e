package main

// pulsarMutants are bugs of the log in Pulsar, whose module is its own.
func pulsarMutants() []mutant {
	const pulsar = "commitlog/pulsarlog"
	return []mutant{
		{
			name: "pulsar-raced-is-the-end", breaks: "of two processes that make a topic of Pulsar at the same moment one fails, and with it a turn of a subscription's shards, say",
			file: pulsar + "/web.go",
			find: " || strings.Contains(said, \"BadVersionException\")\n", put: "\n",
			pkg: pulsar, test: "TestAStepThatAnotherTakesIsRepeated$",
		},
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
			name: "names-of-pulsar-as-listed", breaks: "who listens in the place of Pulsar's web service names a topic of megabytes, which is asked for and logged",
			file: pulsar + "/admin.go",
			find: "commitlog.CheckName(name) == nil {", put: "commitlog.CheckName(name) == nil || name != \"\" {",
			pkg: pulsar, test: "TestOnlyNamesThatCanBeOursAreListedAndEachOnce$",
		},
		{
			name: "token-comes-back-with-a-redirect", breaks: "who is between here and a broker that was redirected to without TLS has the token sent to a host of his",
			file: pulsar + "/web.go",
			find: "append(via[1:len(via):len(via)], req)", put: "append(via[:0:0], req)",
			pkg: pulsar, test: "TestATokenDoesNotComeBackWithARedirectThatCouldBeForged$",
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
		{
			name: "pulsar-batch-believed", breaks: "a batch that is shorter than it says ends every process that reads it",
			file: pulsar + "/entry.go",
			find: "if err := checkBatch(payload, m.messages); err != nil {", put: "if err := checkBatch(payload, m.messages); err != nil && m.messages == 0 {",
			pkg: pulsar, test: "TestAnEntryThatTheClientCantBearIsAnError$",
		},
		{
			name: "pulsar-encrypted-is-read", breaks: "an entry with an encryption key ends every process that reads it",
			file: pulsar + "/metadata.go",
			find: "		case is(metaEncryption, protowire.BytesType):\n", put: "		case is(metaEncryption, protowire.VarintType):\n",
			pkg: pulsar, test: "TestAnEntryThatTheClientCantBearIsAnError$",
		},
		{
			name: "pulsar-chunks-believed", breaks: "an entry that says that it is one of 2^31 chunks takes all memory",
			file: pulsar + "/metadata.go",
			find: "case is(metaChunks, protowire.VarintType) && int32(v) > 1:", put: "case is(metaChunks, protowire.VarintType) && int32(v) < 0:",
			pkg: pulsar, test: "TestAnEntryThatTheClientCantBearIsAnError$",
		},
		{
			name: "pulsar-damage-is-a-record", breaks: "what is put in the place of an entry that can't be read is delivered",
			file: pulsar + "/codec.go",
			find: "	if err := damage(m); err != nil {\n", put: "	if err := damage(m); err != nil && len(m.Payload()) > 0 {\n",
			pkg: pulsar, test: "TestAnEntryThatTheClientCantBearIsAnError$",
		},
		{
			name: "pulsar-empty-is-skipped", breaks: "a message without anything is skipped without a word",
			file: pulsar + "/entry.go",
			find: "	} else if len(payload) == 0 && !m.properties {\n", put: "	} else if len(payload) == 0 && m.properties {\n",
			pkg: pulsar, test: "TestAnEmptyMessageIsARecord$",
		},
		{
			name: "pulsar-command-without-body", breaks: "a broker's command without what belongs to it ends the process",
			file: pulsar + "/arrivals.go",
			find: " || !m.Has(body) {\n", put: " {\n",
			pkg: pulsar, test: "TestNoCommandCountsWithoutItsBody$",
		},
		{
			name: "pulsar-entry-without-bound", breaks: "a small entry becomes as large as it says",
			file: pulsar + "/decompress.go",
			find: "	if size > limits.PulsarEntryBytes {\n", put: "	if size > limits.PulsarEntryBytes<<1 {\n",
			pkg: pulsar, test: "TestABatchIsDecompressedWithinItsLimit$",
		},
		{
			name: "pulsar-claim-believed", breaks: "two bytes that say that they become many have the memory for them",
			file: pulsar + "/decompress.go",
			find: "uint64(size) > uint64(ratio)*uint64(len(b))+slack", put: "uint64(size) > uint64(ratio)*uint64(len(b))+slack<<20",
			pkg: pulsar, test: "TestABatchIsDecompressedWithinItsLimit$",
		},
		{
			name: "pulsar-snappy-without-bound", breaks: "an entry of snappy becomes as large as it likes",
			file: pulsar + "/decompress.go",
			find: "err == nil && n > limits.PulsarEntryBytes {", put: "err == nil && n > limits.PulsarEntryBytes<<1 {",
			pkg: pulsar, test: "TestABatchIsDecompressedWithinItsLimit$",
		},
		{
			name: "pulsar-damage-believed-at-once", breaks: "an entry that was damaged on its way stops a partition",
			file: pulsar + "/feed.go",
			find: "if offset == f.from && damage(m) == nil || offset == f.doubt {", put: "if offset == f.from || offset == f.doubt {",
			pkg: pulsar, test: "TestADamagedEntryIsReadTwice$",
		},
		{
			name: "pulsar-connection-handed-out", breaks: "who listens in the place of Pulsar's web service holds a request for ever",
			file: pulsar + "/web.go",
			find: "	if resp.StatusCode < http.StatusOK {", put: "	if resp.StatusCode < http.StatusContinue {",
			pkg: pulsar, test: "TestAnAnswerThatHandsOutTheConnectionIsNone$",
		},
		{
			name: "pulsar-parts-without-bound", breaks: "an answer of many small parts takes fifteen times its size",
			file: pulsar + "/web.go",
			find: "n > limits.PulsarAnswerParts {", put: "n > limits.PulsarAnswerParts<<1 {",
			pkg: pulsar, test: "TestAnAnswerHasNoMorePartsThanTheLimitSays$",
		},
		{
			name: "pulsar-reason-uncut", breaks: "an error has all that a stranger said",
			file: pulsar + "/web.go",
			find: "	if len(reason.Reason) > shownReason {\n", put: "	if len(reason.Reason) > reasonBytes {\n",
			pkg: pulsar, test: "TestAReasonIsShownCut$",
		},
		{
			name: "pulsar-config-believed", breaks: "a topic says of itself that it has 2^40 partitions",
			file: pulsar + "/log.go",
			find: " || c.Partitions > commitlog.MaxPartitions || ", put: " || c.Partitions > commitlog.MaxPartitions<<30 || ",
			pkg: pulsar, test: "TestAConfigurationThatNoneOfOursWritesIsRefused$",
		},
	}
}
