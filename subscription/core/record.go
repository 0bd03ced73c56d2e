package core

import (
	"cmp"
	"encoding/binary"
	"fmt"
)

// Origin is the place of a record in the main topic. It is the record's identity wherever copies of
// it lie, and the order of the records of a key.
type Origin struct {
	Storage, Partition int32 // below 1<<20: an owner keeps many origins in memory
	Offset             int64
}

// Compare orders origins.
func (o Origin) Compare(p Origin) int {
	return cmp.Or(cmp.Compare(o.Storage, p.Storage), cmp.Compare(o.Partition, p.Partition), cmp.Compare(o.Offset, p.Offset))
}

// ID names a record in one of its rounds: each redrive of a dead letter begins another.
type ID struct {
	Origin
	Round int
}

// String returns the ID for people: storage topic, partition, offset and round.
func (id ID) String() string {
	return fmt.Sprintf("%d.%d.%d.%d", id.Storage, id.Partition, id.Offset, id.Round)
}

// Tenure is one start of a shard's worker.
type Tenure struct {
	Epoch int64  // of the grant
	Run   uint64 // counts the starts under one grant
	Token uint64 // random: a store that went back may give an epoch twice
}

// above reports whether a fence of t counts after one of u.
func (t Tenure) above(u Tenure) bool {
	return t.Epoch > u.Epoch || t.Epoch == u.Epoch && t.Run > u.Run
}

// Kind is the kind of a record of the journal.
type Kind uint8

// The kinds. Those from Park to Known name a record of the main topic.
const (
	Fence   Kind = iota + 1 // a start of a worker; nothing of a writer with a lower one counts
	Park                    // the record waits here, its payload is this record's
	Try                     // it was tried again, without success
	Done                    // it is finished
	Dead                    // it is a dead letter; its payload is in the dead-letter topic
	Known                   // it was finished under an earlier shard set
	Order                   // what people want done with dead letters and what is parked; from any writer
	Ends                    // its partition ended at ID.Offset then: what was said of records from there on is void
	Close                   // the last that counts: another shard set continues
	Decided                 // what an order made of a record, with its payload; it lies with the decisions of the subscription
	kinds
)

// Reason is why a record became a dead letter.
type Reason uint8

// The reasons.
const (
	Attempts  Reason = iota + 1 // it has used up its attempts
	Permanent                   // the answer was that it can never succeed
	reasons
)

// String is the word for people.
func (r Reason) String() string {
	if r == Permanent {
		return "permanent"
	}
	return "attempts"
}

// Verb is the action of an order.
type Verb uint8

// The verbs.
const (
	Redrive Verb = iota + 1 // deliver it again, in its place in the order of its key
	Discard                 // finish it as it is; its key goes on
	Pass                    // the same, of one that is dealt with in another way
	Edit                    // deliver it again, with the value that the order has
	Retry                   // of what is parked: its pause ends now. Without IDs it is about all of Key, or about all
	verbs
)

// Record is a journal record without its payload. Times are Unix milliseconds of the writer.
type Record struct {
	Set  string // the shard set, whose journal this is
	Kind Kind
	At   int64 // when it was written

	// Its writer; not of an Order.
	By  Tenure
	Seq uint64

	ID ID // of Park, Try, Done, Dead, Known, Ends, Decided

	// Of Park, Dead, Known and Decided, and of an Order to Edit or Retry. Key is nil for a record without one.
	Key       []byte
	Timestamp int64 // of the main record

	// Of Park, Try, Dead and Decided.
	Attempts int
	Due      int64 // of the next attempt
	Since    int64 // of the first failure; 0: it has not failed, it waits behind one that has
	Answer   string

	// Of Dead.
	Copy     int64  // its payload's offset in the dead-letter topic
	Blocking bool   // its key waits until an operator decides
	Reason   Reason // also of Decided; 0: it was parked

	Member string // of Fence: the member, for people

	// Of Order and Decided.
	Order string // its ID, for people
	User  string // gave it
	Verb  Verb

	IDs    []ID // of Order
	NoCopy bool // of Decided: its payload could not be read any more
}

// appendLane appends the name under which the records of one key are kept.
func appendLane(b, key []byte, o Origin) []byte {
	if key != nil {
		return append(append(b, 'k'), key...)
	}
	b = binary.AppendUvarint(append(b, 'o'), uint64(o.Storage))
	b = binary.AppendUvarint(b, uint64(o.Partition))
	return binary.AppendUvarint(b, uint64(o.Offset))
}
