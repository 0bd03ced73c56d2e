package core

import (
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// Input is one event and when it happened.
type Input struct {
	// Now is monotonic time since any fixed moment before; it is positive and never goes back.
	Now time.Duration
	// Wall is Unix milliseconds. It is copied into documents for people and decides nothing.
	Wall  int64
	Event Event
}

// Event is something that happened; the types below are all.
type Event interface{ event() }

type (
	// Changed is the store's hint that something below the watched prefix changed.
	Changed struct{}

	// Loaded answers a Load. The core owns State from then on.
	Loaded struct {
		ID     uint64
		State  *protocol.State // with checkpoints; nil with Err
		Layout Layout          // read after State; nil: not asked for
		Err    error
	}

	// Applied answers an Apply: Results has one entry a transaction, or Err is that of the call.
	Applied struct {
		ID      uint64
		Results []registry.Result
		Err     error
	}

	// SessionOpened answers an OpenSession.
	SessionOpened struct {
		ID      uint64
		Session string        // "" with Err
		Lease   time.Duration // until then it certainly lives: when the request was sent, plus the TTL
		Err     error
	}

	// Renewed is a new Lease of the session: when the last good renewal was sent, plus the TTL. It is
	// sooner than the one before when the host was suspended since.
	Renewed struct {
		Session string
		Lease   time.Duration
	}

	// SessionLost says that the session has ended.
	SessionLost struct{ Session string }

	// Tick says that the time of SetTimer has come. Early or superfluous ones do no harm.
	Tick struct{}

	// Progress reports how far units got; the shell sends it at each commit interval, changed ones only.
	Progress struct{ Units []UnitProgress }

	// UnitEnded says that a worker returned, whether or not it was asked to.
	UnitEnded struct {
		Unit       int
		Run        uint64
		Checkpoint *protocol.Checkpoint // the final one; nil: as it was
		Err        error                // why, when it ended by itself
		Stuck      bool                 // a handler of it never came back: better let another member try
		// Above is an epoch that the worker has met outside of the registry, at least as high as its
		// own: then nothing that it does counts. 0: it met none.
		Above int64
	}

	// UnitStuck says that a handler of the unit has run for longer than the watchdog allows.
	UnitStuck struct {
		Unit int
		Run  uint64
		For  time.Duration
	}

	// Grown is what the group consumes from now on: more units, or final ends of some.
	Grown struct{ Layout Layout }

	// Stop asks the member to drain and leave; Exit follows in bounded time.
	Stop struct{}
)

// UnitProgress is the progress of one worker.
type UnitProgress struct {
	Unit       int
	Run        uint64
	Checkpoint protocol.Checkpoint
}

func (Changed) event()       {}
func (Loaded) event()        {}
func (Applied) event()       {}
func (SessionOpened) event() {}
func (Renewed) event()       {}
func (SessionLost) event()   {}
func (Tick) event()          {}
func (Progress) event()      {}
func (UnitEnded) event()     {}
func (UnitStuck) event()     {}
func (Grown) event()         {}
func (Stop) event()          {}
