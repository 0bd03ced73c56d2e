package ringfence_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ringfence/ringfence"
)

// ledger is something outside of Ringfence that a handler writes to. It remembers the highest
// epoch by partition and refuses lower ones: a process that was stopped, lost its partition, and
// goes on where it stood can't overwrite what its successor wrote.
type ledger struct {
	epochs  map[int]int64
	entries []string
}

func (l *ledger) write(partition int, epoch int64, entry string) error {
	if epoch < l.epochs[partition] {
		return fmt.Errorf("epoch %d of partition %d is over", epoch, partition)
	}
	l.epochs[partition] = epoch
	l.entries = append(l.entries, entry)
	return nil
}

// The epoch of a message is a fencing token: hand it to whatever the handler writes to.
func ExampleMessage_epoch() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rf, err := ringfence.Open(ctx, ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		log.Fatal(err)
	}
	defer rf.Close()
	if err := rf.EnsureTopic(ctx, "payments", ringfence.TopicConfig{Partitions: 1}); err != nil {
		log.Fatal(err)
	}
	if _, err := rf.Produce(ctx, "payments", ringfence.Message{Key: []byte("acct-42"), Value: []byte("debit 10")}); err != nil {
		log.Fatal(err)
	}
	books := &ledger{epochs: map[int]int64{}}
	err = rf.Consume(ctx, "payments", "billing", func(_ context.Context, m *ringfence.Message) error {
		defer cancel() // enough
		return books.write(m.Partition, m.Epoch, string(m.Value))
	}, nil)
	fmt.Println(books.entries, err)
	fmt.Println("a stale writer:", books.write(0, 0, "debit 10"))
	// Output:
	// [debit 10] <nil>
	// a stale writer: epoch 0 of partition 0 is over
}
