package main

// frontDoorMutants are bugs between the front door and what lies below it.
func frontDoorMutants() []mutant {
	return []mutant{
		{
			name: "hold-after-the-first-record", breaks: "retention drops what a group that ran for a moment has not processed",
			file: "consume.go",
			find: "	hold.begin(ctx)\n", put: "",
			pkg: ".", test: "TestRetentionKeepsWhatAGroupThatRanForAMomentNeeds$",
		},
		{
			name: "latest-is-not-stored", breaks: "a crash before the first checkpoint skips records",
			file: "unit.go",
			find: "	return start, w.group.Checkpoint(ctx, u.Grant(), registry.Checkpoint{Positions: start, Member: u.Member(), Updated: time.Now().UnixMilli()})\n",
			put:  "	return start, nil\n",
			pkg:  ".", test: "TestLatestIsWhereTheGroupWasMadeNotWhereItIsRestarted$",
		},
		{
			name: "namespaces-share-records", breaks: "one namespace deletes the records of another",
			file: "topic/document.go",
			find: "		namespace += \"..\"\n", put: "		namespace = \"\"\n",
			pkg: "topic", test: "TestNamespacesDoNotShareRecords$",
		},
	}
}
