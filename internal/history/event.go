// Package history is the one judge of whether a group kept its promises. Everything that
// produces, consumes or owns tells what it did as events; the Checker reads the events of all
// members in the order of their time and reports what was delivered, duplicated, lost or
// reordered, and every broken promise with the events that show it.
//
// The simulation feeds it directly; real processes write JSON lines (Writer) that are merged
// and checked afterwards (Check). It reads a history once and keeps eight bytes for each record,
// the keys that are in flight, not yet below a checkpoint or told with tokens, and the owners of each unit: about
// 100 MB for 10 million records.
package history

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ringfence/ringfence/group/protocol"
)

// Kind is what an event tells.
type Kind string

// The kinds of events, and the fields that they use besides At.
const (
	// Sent: a producer is about to append a record for the first time. A history with such events
	// tells all of them, and each has a value that no other has. Member, Key, Sequence, Value.
	Sent Kind = "sent"
	// Denied: the log said that a record is certainly not stored, and it is not sent again. Value.
	Denied Kind = "denied"
	// Produced: the log acknowledged a record. Storage, Partition, Offset, Key, Value.
	Produced Kind = "produced"
	// Started: a handler is about to get a record. Member, Incarnation, Unit, Epoch, Storage,
	// Partition, Offset, Key, Value, Token.
	Started Kind = "start"
	// Finished: that handler returned nil. To be told before the checkpoint may pass the record.
	Finished Kind = "end"
	// Failed: that handler ended otherwise; the record is still unfinished.
	Failed Kind = "fail"
	// Committed: the answer to a checkpoint write. Began, Member, Incarnation, Unit, Epoch,
	// Positions, Outcome.
	Committed Kind = "commit"
	// Owned: a unit changed owner. Began, Member, Incarnation, Unit, Epoch, After, Positions (the
	// checkpoint that the owner starts from), Handoff. An empty Member: it has no owner now.
	Owned Kind = "owned"
	// Rejoined: a member whose session was lost goes on with another one, in the same incarnation. It
	// may keep units that were not taken meanwhile, at their epochs, and give out again what it handled
	// since their checkpoints. Member, Incarnation. To be told when its handlers were told to end.
	Rejoined Kind = "rejoined"
	// Seek: an operator moved the checkpoint of a unit, which starts Epoch. Unit, Epoch,
	// Positions. To be told before the Owned of that epoch.
	Seek Kind = "seek"
	// Rollback: the store lost its last writes, as at a failover to a replica that lagged. Told for
	// each unit: Unit, Epoch and Positions that it has now (Positions also when none is stored).
	Rollback Kind = "rollback"
)

// Outcome is what became of a commit.
type Outcome string

// The outcomes of a commit.
const (
	Accepted Outcome = ""
	Refused  Outcome = "refused"
	Unknown  Outcome = "unknown"
)

// Event is one thing that happened.
type Event struct {
	Kind Kind `json:"kind"`
	// At is when it was known to have happened: nanoseconds of a monotonic clock that all
	// writers of the history share (see Now), or any number that grows.
	At int64 `json:"at"`
	// Began is when the request was sent of which At is the answer; 0 means At.
	Began       int64  `json:"began,omitempty"`
	Member      string `json:"member,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
	Unit        int    `json:"unit"`
	Epoch       int64  `json:"epoch,omitempty"`
	After       int64  `json:"after,omitempty"` // the epoch that was stored before it
	Storage     int    `json:"storage,omitempty"`
	Partition   int    `json:"partition"`
	Offset      int64  `json:"offset"`
	Key         string `json:"key,omitempty"`   // of Key; "": no key, so no order
	Sequence    int64  `json:"seq,omitempty"`   // of the record among those of its key, as its producer sent them, from 1; 0: not told
	Value       uint64 `json:"value,omitempty"` // a fingerprint of key, value and headers; 0: not told

	Token string `json:"token,omitempty"` // the fencing token of the hand-out; "": not told

	Positions []protocol.Position `json:"positions,omitempty"`
	Outcome   Outcome             `json:"outcome,omitempty"`
	// Handoff: the owner before has drained the unit and passed it on, checkpoint and all.
	Handoff bool `json:"handoff,omitempty"`
	// Crossed: it was sent before the store went back, and reached it after that. Its epoch is that of its
	// sending, and may be one that the store has forgotten (docs/design/fence-and-epoch.md).
	Crossed bool   `json:"crossed,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Key is the form in which a record's key stands in an event: itself when it is readable text,
// else "0x" and hexadecimal digits; "" only for nil.
func Key(key []byte) string {
	if key == nil {
		return ""
	}
	s := string(key)
	if s == "" || !utf8.ValidString(s) || strings.HasPrefix(s, "0x") {
		return "0x" + hex.EncodeToString(key)
	}
	return s
}

func (e *Event) began() int64 { return cmp.Or(e.Began, e.At) }

func (e *Event) place() place { return place{e.Storage, e.Partition} }

func (e *Event) who() string {
	if e.Member == "" {
		return "no owner"
	}
	return e.Member + "@" + e.Incarnation
}

// String is one line for people.
func (e Event) String() string {
	at := fmt.Sprintf("%d %s", e.At, e.Kind)
	switch e.Kind {
	case Rejoined:
		return fmt.Sprintf("%s %s", at, e.who())
	case Sent, Denied:
		return fmt.Sprintf("%s record %d of key %q by %s", at, e.Sequence, e.Key, e.Member)
	case Produced:
		return fmt.Sprintf("%s %s/%d key %q", at, e.place(), e.Offset, e.Key)
	case Started, Finished, Failed:
		return fmt.Sprintf("%s %s/%d key %q by %s, unit %d epoch %d", at, e.place(), e.Offset, e.Key, e.who(), e.Unit, e.Epoch)
	case Committed:
		outcome := e.Outcome
		if outcome == Accepted {
			outcome = "accepted"
		}
		return fmt.Sprintf("%s unit %d epoch %d by %s %v %s", at, e.Unit, e.Epoch, e.who(), e.Positions, outcome)
	case Owned:
		how := "claimed"
		if e.Handoff {
			how = "handed over"
		}
		return fmt.Sprintf("%s unit %d epoch %d by %s from %v, %s %s", at, e.Unit, e.Epoch, e.who(), e.Positions, how, e.Reason)
	default:
		return fmt.Sprintf("%s unit %d epoch %d %v", at, e.Unit, e.Epoch, e.Positions)
	}
}

// place is a partition of a storage topic.
type place struct{ storage, partition int }

func (p place) String() string { return fmt.Sprintf("%d/%d", p.storage, p.partition) }
