package core

import (
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// Effect is an order to the shell; the types below are all. A call is answered with the event of
// the same ID; calls may be under way at the same time, in any order.
type Effect interface{ effect() }

type (
	// Load asks for protocol.Group.Load with checkpoints, and with Layout for what the group consumes, read
	// after that. At most one is under way.
	Load struct {
		ID     uint64
		Layout bool
	}

	// Apply asks for registry.Registry.Apply.
	Apply struct {
		ID   uint64
		Txns []registry.Txn
	}

	// OpenSession asks for a session. At most one is under way.
	OpenSession struct {
		ID  uint64
		TTL time.Duration
	}

	// LoseSession says that a session counts as ended: members that share it must not go on with it. It stays
	// open until CloseSession.
	LoseSession struct{ Session string }

	// CloseSession releases a useless session, without waiting for it.
	CloseSession struct{ Session string }

	// StartUnit starts a worker. The unit has none: the last one's UnitEnded came.
	StartUnit struct {
		Run        uint64 // of this start; events of the worker carry it
		Grant      protocol.Grant
		Checkpoint *protocol.Checkpoint // where to start; nil: nothing was ever committed
		Why        string
	}

	// DrainUnit asks a worker to take nothing new, finish what runs and return. The core stops it
	// when it hasn't by Deadline.
	DrainUnit struct {
		Unit     int
		Run      uint64
		Deadline time.Duration
		Why      string
	}

	// StopUnit cancels a worker's context at once; Cause says why.
	StopUnit struct {
		Unit  int
		Run   uint64
		Cause error
	}

	// SetTimer asks for a Tick at that time; it replaces the one before.
	SetTimer struct{ At time.Duration }

	// Report is news for people.
	Report struct {
		Kind  Kind
		Unit  int // -1: no unit
		Epoch int64
		From  string // member
		To    string // member
		Text  string
		Err   error // with Trouble
	}

	// Exit is the last effect: the shell ends the session, joins the workers and returns Err. Nil:
	// it left in order.
	Exit struct {
		Err error
		// Session is the one in use, "" for none; Withdraw, if not nil, takes away the member's entry, which
		// lives as long. If others need the session, the shell applies Withdraw instead of ending it. It ends
		// the session if that fails, and with Doubt: then an entry may still come that only the end of the
		// session keeps away.
		Session  string
		Withdraw *registry.Txn
		Doubt    bool
	}
)

// Kind is the kind of a Report.
type Kind uint8

// The kinds of reports.
const (
	Joined     Kind = iota + 1 // this member is in the group
	Assigned                   // this member got a unit; From had it
	HandedOver                 // this member gave a unit to To
	Fenced                     // a unit was taken from this member, or began a new epoch here (To)
	Committed                  // a checkpoint was stored
	Trouble                    // a failure that is retried, or that needs an operator
	Paused                     // the session was lost: nothing runs until there is a new one
	Planned                    // this member wrote a new assignment
)

func (k Kind) String() string {
	names := [...]string{"", "joined", "assigned", "moved", "fenced", "committed", "trouble", "paused", "planned"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

func (Load) effect()         {}
func (Apply) effect()        {}
func (OpenSession) effect()  {}
func (LoseSession) effect()  {}
func (CloseSession) effect() {}
func (StartUnit) effect()    {}
func (DrainUnit) effect()    {}
func (StopUnit) effect()     {}
func (SetTimer) effect()     {}
func (Report) effect()       {}
func (Exit) effect()         {}
