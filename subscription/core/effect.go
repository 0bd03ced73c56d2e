package core

// Effect is an order to the shell.
type Effect interface{ effect() }

// Append is a batch for the journal, in its order; parts of it may be appended one after another. A part
// with an unknown outcome is appended again, unchanged. Nothing is ever left out, and the next batch
// comes only after this one was read back.
type Append struct{ Entries []Entry }

// Entry is a record for the journal and the payload that goes with it.
type Entry struct {
	Record
	Payload Payload
}

// Lost is written instead of a dead letter that was to be delivered again, but whose copy can no longer
// be read: it stays one, whatever was ordered, until it is discarded.
func (e Entry) Lost(answer string) Entry {
	r := e.Record
	r.Kind, r.Copy, r.Since, r.Answer = Dead, e.Payload.Place, r.At, cut(answer, MaxAnswer)
	return Entry{Record: r}
}

// Payload says where the user's record lies that is to be copied.
type Payload struct {
	From  Place
	Place int64 // offset in the journal, or in the dead-letter topic
	Shard int   // of InParent and InParentDead
}

// Place is where a payload lies.
type Place uint8

// The places.
const (
	Nowhere Place = iota // there is none
	InMain               // the main record of that origin, which a handler holds
	InJournal
	InDead
	InParent     // in the journal of a shard of the set before
	InParentDead // among the dead letters of such a shard
	AtTheEnd     // of the journal: what the shell says about the main records
)

// Copy stores a payload in the dead-letter topic, however often it takes; then State.Copied is called.
type Copy struct {
	Record  // what becomes its mark
	Payload Payload
}

// Note is stored with the decisions, however often it takes, before an order is carried out: it still says what became
// of the records when their journal is gone. Then State.Noted is called.
type Note struct {
	Place int64 // of the order, or inParent
	Record
	Of []Entry // a Decided for each record
}

// inParent is the place of an order that a parent took.
const inParent = -1

// Hurry says that the pauses that an order is about end, those of records too that are not parked, and what holds the
// deliveries of all back.
type Hurry struct{ Record }

// Settle finishes a main record: its outcome can't be lost any more.
type Settle struct{ Origin Origin }

// Deliver is an attempt at a parked record; then State.Attempted is called.
type Deliver struct {
	ID      ID
	Key     []byte
	Place   int64 // in the journal
	Attempt int
	Since   int64 // of its first failure; 0: none
}

// Started says that all that earlier owners left is known: the inputs may be read.
type Started struct{}

// Behind says that another start wrote with a higher fence: nothing of this shard counts any more.
type Behind struct{ Seen Tenure }

// Closed says that the journal has ended for good: this shard delivers and writes nothing more.
type Closed struct{}

// Adopted says that all that the parents have left was taken over: State.Open follows the first checkpoint.
type Adopted struct{}

// Trim drops the journal below a place.
type Trim struct{ Before int64 }

func (Append) effect()  {}
func (Copy) effect()    {}
func (Note) effect()    {}
func (Hurry) effect()   {}
func (Settle) effect()  {}
func (Deliver) effect() {}
func (Started) effect() {}
func (Behind) effect()  {}
func (Trim) effect()    {}
func (Closed) effect()  {}
func (Adopted) effect() {}
