// Package ringfence processes messages in parallel without losing one, doing one twice after a
// clean handoff, or breaking the order of one key's messages.
//
// It starts as a directory on disk and needs no server:
//
//	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: "./data"})
//	err = rf.EnsureTopic(ctx, "payments", ringfence.TopicConfig{Partitions: 8})
//	at, err := rf.Produce(ctx, "payments", ringfence.Message{Key: []byte("acct-42"), Value: body})
//	err = rf.Consume(ctx, "payments", "billing", func(ctx context.Context, m *ringfence.Message) error {
//		return nil // nil: the checkpoint moves; error: the record is retried, in order
//	}, nil)
//
// Any number of processes may open the same directory. Consumers of one group share the
// partitions of a topic; when one dies the others go on from its checkpoints, and whatever the
// dead one still tries to write is refused.
//
// # Guarantees
//
// What Produce returned is durable. A record is handed to the handler at least once; after a
// clean handoff exactly once. Records of one key are handled in the order in which they were
// produced, one at a time, also through crashes and rebalances. The ctx of a handler is cancelled
// the moment its partition is lost, and a checkpoint by a former owner is refused by the store.
package ringfence
