package main

// kafkaMutants are bugs that show on a Kafka of several brokers, and of what its acks promise.
func kafkaMutants() []mutant {
	return []mutant{
		{
			name: "seal-that-waits-for-nobody", breaks: "a broker that has not heard of a seal is elected, and acks a record behind the end",
			file: "commitlog/kafkalog/seal.go",
			find: "	epochs, err := s.known(ctx)\n", put: "	epochs, err := make([]int32, len(s.parts)), ctx.Err()\n",
			pkg: "commitlog/kafkalog", test: "TestASealOfAClusterWaitsForABrokerThatMayLead$", server: "kafka_cluster",
		},
		{
			name: "refusal-of-a-limit-that-another-broker-knows", breaks: "a good record is refused for good because a broker has not heard of a seal",
			file: "commitlog/kafkalog/reconcile.go",
			find: "	if err != nil || limit >= len(b.data) &&", put: "	if err != nil || limit < 0 &&",
			pkg: "commitlog/kafkalog", test: "TestAnAppendIsNotInvalidBecauseABrokerIsLate$", server: "kafka",
		},
		{
			name: "buffer-is-all-there-is", breaks: "a read behind what a buffer ends with gives nothing, and a shard ends as its journal were damaged",
			file: "commitlog/kafkalog/read.go",
			find: "if f.seek(req.Offset); len(f.spans) > 0 {", put: "if len(f.spans) > 0 {",
			pkg: "commitlog/kafkalog", test: "TestConformance/Read/GivesWhatLiesBehindWhatItLeft$", server: "kafka",
		},
		{
			name: "buffer-put-away-was-empty", breaks: "of many who read at once some get nothing, though there are records",
			file: "commitlog/kafkalog/read.go",
			find: "		f := asked\n		if f == nil || !f.has(req.Offset) {\n			f = r.feed(req.Offset)\n		}\n",
			put:  "		f := r.feed(req.Offset)\n		if asked != nil {\n			asked = f\n		}\n",
			pkg:  "commitlog/kafkalog", test: "TestConformance/Read/GivesEachOfManyReadersItsPlace$", server: "kafka",
		},
		{
			name: "deletion-by-name", breaks: "a deletion whose answer was lost comes again and deletes the next topic of the name",
			file: "commitlog/kafkalog/topics.go",
			find: "		t.TopicID = s.id\n", put: "		t.Topic = kmsg.StringPtr(s.kafkaName)\n",
			pkg: "commitlog/kafkalog", test: "TestADeletionThatComesAgainSparesTheNextTopicOfTheName$", server: "kafka",
		},
		{
			name: "acks-of-one-broker", breaks: "an ack at level sync is lost with one broker",
			file: "commitlog/kafkalog/durability.go",
			find: "	settings[minInSync] = \"2\"\n", put: "	settings[minInSync] = \"1\"\n",
			pkg: "commitlog/kafkalog", test: "TestAnAckSurvivesTheLossOfABroker$", server: "kafka_cluster",
		},
		{
			name: "one-broker-for-the-controller", breaks: "no topic can be made while the broker that the client takes for the controller is stopped",
			file: "commitlog/kafkalog/topics.go",
			find: "	resp, err := anyBroker(ctx, l, req) // what", put: "	resp, err := req.RequestWith(ctx, l.main) // what",
			pkg: "commitlog/kafkalog", test: "TestAStoppedBrokerKeepsNoTopicFromBeingMadeOrDeleted$/create$", server: "kafka_cluster",
		},
		{
			name: "a-gap-is-believed-at-once", breaks: "one bit that the network changes skips records of Kafka, or puts a group far above the end of the log",
			file: "commitlog/kafkalog/sure.go",
			find: "	if err != nil || follows(part.RecordBatches, offset) {\n", put: "	if err != nil || len(part.RecordBatches) > 0 || follows(part.RecordBatches, offset) {\n",
			pkg: "commitlog/kafkalog", test: "TestOneWrongAnswerSkipsNoRecord$", server: "kafka",
		},
		{
			name: "a-poll-believes-a-gap", breaks: "one bit that the network changes in the answer to a long poll skips records of Kafka",
			file: "commitlog/kafkalog/poll.go",
			find: "	if !follows(part.RecordBatches, from) {\n", put: "	if part == nil {\n",
			pkg: "commitlog/kafkalog", test: "TestALongPollBelievesNoGap$",
		},
		{
			name: "a-first-offset-above-the-end", breaks: "one wrong answer makes a new group skip all that a partition of Kafka has",
			file: "commitlog/kafkalog/fetch.go",
			find: "		case first <= next:\n			return driver.Bounds{First: first,", put: "		case next >= 0:\n			return driver.Bounds{First: min(first, next),",
			pkg: "commitlog/kafkalog", test: "TestOneWrongAnswerSkipsNoRecord$", server: "kafka",
		},
		{
			name: "once-trimmed-for-ever", breaks: "one wrong answer keeps a process from a partition of Kafka until it is started anew",
			file: "commitlog/kafkalog/sure.go",
			find: "	if offset < b.First {\n", put: "	if offset < p.read.first {\n",
			pkg: "commitlog/kafkalog", test: "TestOneWrongAnswerSkipsNoRecord$", server: "kafka",
		},
		{
			name: "a-pause-as-asked-for", breaks: "one bit that is wrong in an answer of Kafka stops a connection for days, and nobody says so",
			file: "commitlog/kafkalog/walk.go",
			find: "		if n > limits.KafkaPauseMillis {\n", put: "		if n > limits.KafkaPauseMillis<<20 {\n",
			pkg: "commitlog/kafkalog", test: "TestABrokerAsksForNoLongPause$",
		},
		{
			name: "two-answers-agree-always", breaks: "a place that one answer alone has is believed",
			file: "commitlog/kafkalog/sure.go",
			find: "a == nil || !bytes.Equal(a, b)", put: "a == nil || len(a) != len(bytes.Clone(b))",
			pkg: "commitlog/kafkalog", test: "TestTwoAnswersAgreeAsFarAsTheyAreTheSame$",
		},
		{
			name: "gap-behind-the-first-batch", breaks: "a gap in the middle of an answer is believed at once",
			file: "commitlog/kafkalog/sure.go",
			find: "		raw, offset = rest, last+1\n	}\n	return true", put: "		_, _ = rest, last\n		return true\n	}\n	return true",
			pkg: "commitlog/kafkalog", test: "TestAGapIsSeenWhereverItIs$",
		},
	}
}
