package main

// pulsarMutants are bugs of the log in Pulsar, whose module is its own.
func pulsarMutants() []mutant {
	const pulsar = "commitlog/pulsarlog"
	return []mutant{
		{
			name: "pulsar-end-by-statistics", breaks: "a reader of a partition that is being sealed stops before records that were acknowledged",
			file: pulsar + "/seal.go",
			find: "		end, err := p.admin().end(ctx, p.name)\n", put: "		ledger, entry, err := parsePosition(s.LastConfirmed)\n		end := &position{Ledger: ledger, Entry: entry}\n",
			pkg: pulsar, test: "TestASealedPartitionEndsWhereTheBrokerHasWrittenItDown$",
		},
	}
}
