package ringfence_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ringfence/ringfence"
)

// ledger is something outside of Ringfence that a handler writes to. It keeps the highest token of each key and
// refuses lower ones: a process that was stopped, lost its partition, and goes on where it stood can't overwrite
// what its successor wrote.
type ledger struct {
	tokens  map[string]string
	entries []string
}

func (l *ledger) write(key, token, entry string) error {
	if token < l.tokens[key] {
		return fmt.Errorf("%s was written with a later token", key)
	}
	l.tokens[key] = token
	l.entries = append(l.entries, entry)
	return nil
}

// Hand the token of a message to whatever the handler writes to. In SQL, with a column for it:
//
//	UPDATE accounts SET balance = $1, token = $2 WHERE id = $3 AND token <= $2
func ExampleMessage_Token() {
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
	for _, debit := range []string{"debit 10", "debit 20"} {
		if _, err := rf.Produce(ctx, "payments", ringfence.Message{Key: []byte("acct-42"), Value: []byte(debit)}); err != nil {
			log.Fatal(err)
		}
	}
	books, first := &ledger{tokens: map[string]string{}}, ""
	err = rf.Consume(ctx, "payments", "billing", func(_ context.Context, m *ringfence.Message) error {
		if first == "" {
			first = m.Token()
		} else {
			defer cancel() // enough
		}
		return books.write(string(m.Key), m.Token(), string(m.Value))
	}, nil)
	fmt.Println(books.entries, err)
	fmt.Println("a stale writer:", books.write("acct-42", first, "debit 10"))
	// Output:
	// [debit 10 debit 20] <nil>
	// a stale writer: acct-42 was written with a later token
}
