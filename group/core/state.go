package core

import (
	"time"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// Config configures a member. The shell validates it and fills the defaults in.
type Config struct {
	Group      *protocol.Group // for its keys only; the core calls no store
	Topic      string
	Units      int
	Layout     Layout // how units depend on each other; nil: their number is fixed. Else it has Units of them
	LayoutName string // that all members have
	Closed     bool   // there will be no more units: all of them may be passed, which a member may not have heard of yet
	Initial    int    // how many of them a new group begins where Config says; 0: all
	First      int    // the first one that a new group works on; those before end at 0
	// Defined holds while what the group consumes has the definition last seen: a group is founded, and grows, under
	// it. nil: nothing is checked.
	Defined     func() registry.Check
	UnitZones   []string // by unit; nil: anywhere
	Member      string
	Incarnation string // of this start; unique for ever
	Weight      int
	Zone        string
	Host        string // informative
	PID         int    // informative
	Assignor    assign.Assignor

	// WorkersCommit: the workers store the checkpoints, and the core only takes note of them. A
	// worker reports only where the unit ends, which may lie beyond its last record.
	WorkersCommit bool

	// Static keeps the units of the member for it through RestartWindow after it went.
	Static        bool
	RestartWindow time.Duration

	SessionTTL     time.Duration
	DrainTimeout   time.Duration // for running handlers, before they are cancelled
	CancelGrace    time.Duration // for cancelled handlers, before the unit goes on without them
	CommitInterval time.Duration
	Sweep          time.Duration // a look at the store without a hint
}

// Delays that are not worth an option.
const (
	planDelay  = 100 * time.Millisecond            // between one member's turn to write the assignment and the next
	retryFirst = 50 * time.Millisecond             // after a failure of the store or a worker; doubles
	retryStore = time.Second                       // at most, for the store
	retryUnit  = 5 * time.Second                   // at most, for a worker
	calm       = retryStore + 500*time.Millisecond // after coming back, for the others to come back too
	maxStuck   = 3                                 // hung handlers of a unit in a row before another member tries
)

// State is a member as the protocol sees it. One goroutine owns it.
type State struct {
	cfg  Config
	step uint64 // counts Steps: a logical clock for "which came first"
	now  time.Duration
	wall int64
	out  []Effect

	// The calls under way.
	nextID  uint64
	pending []call // Applies, by ID
	batch   []write

	// The session, and the membership that is bound to it.
	session    string
	lease      time.Duration
	doubt      bool   // unknown: whether a member entry that was sent in it was or will be put
	opening    uint64 // ID of the OpenSession under way
	closing    string // a lost session that is closed when the workers have ended
	joined     bool
	everJoined bool
	life       string // of the group that it joined; "": none yet
	// tried counts its tries to join. It may have been in the group, and been given units, without
	// hearing of it.
	tried     int
	joining   bool // a write of the member entry is under way
	member    registry.Version
	self      entry
	announced bool // that it is leaving
	calmUntil time.Duration

	// The store as it was last seen, with our own confirmed writes.
	view     *protocol.State
	viewAt   time.Duration // when it came
	viewStep uint64        // when the Load that brought it was asked for; 0: none is good
	loading  uint64        // ID of the Load under way
	loadStep uint64        // when it, or the last one, was asked for
	wantLoad bool
	// wantLayout makes the next Load read what the group consumes, too.
	wantLayout bool

	// Pause after failures of the store.
	storeFailures int
	writesFail    bool
	storeRetry    time.Duration // no calls before; 0: none failed

	// What the units are, and which may run.
	layout      Layout
	gates       []bool  // by unit
	spent       []spent // by unit
	metaWriting bool
	meta        entry
	passSince   time.Duration // units could be passed since

	plan    plan
	absent  []absence
	units   []unit
	touched bool // look at all units at the end of the step

	committing bool // a batch of checkpoints is under way
	commitAt   time.Duration
	sweepAt    time.Duration
	timer      time.Duration

	leaving    bool
	leaveUntil time.Duration
	joinUntil  time.Duration // so long a leave waits for the answer to a join
	exited     bool
}

// worker is the state of a unit's worker.
type worker uint8

const (
	none worker = iota
	running
	draining
	stopping  // cancelled
	abandoned // cancelled, and still not back after the grace
)

// unit is what the member knows and does about one unit.
type unit struct {
	owner entry
	point entry // the checkpoint
	write kind  // the write under way; 0: none

	// The right to it. It outlives a lost session: the owner entry tells whether it still holds.
	granted    bool
	grant      protocol.Grant
	checkpoint *protocol.Checkpoint // the newest known; nil: none was ever
	stored     registry.Version     // of the checkpoint entry
	dirty      bool                 // checkpoint is newer than what is stored
	told       bool                 // with WorkersCommit: checkpoint is where the worker ended, beyond all that it stored
	seen       int64                // the highest epoch ever seen, whatever the store says later
	damaged    [2]registry.Version  // of the unreadable owner and checkpoint, as they were logged

	worker     worker
	run        uint64
	runGrant   registry.Version // under which the worker was started
	wrote      uint64           // the step of the last answer to a write of its owner by us
	deadline   time.Duration    // of draining or stopping
	failures   int
	stuck      int           // times that a handler hung, without progress in between
	hung       bool          // another member should try
	evictions  int           // times that it was given away since a handler hangs
	evictAt    time.Duration // not again before
	behind     bool          // another owner wrote under this epoch or a higher one: nothing more may be started in it
	leftBehind bool          // a handler was left behind: nothing more may be started in this epoch
	cut        bool          // handlers were stopped in this epoch: what they finished since is not in the checkpoint
	retryAt    time.Duration // no start before

	// A live owner that should hand it over to us.
	waitFor  registry.Version
	waitTill time.Duration
	why      string // it came to us
	from     string // its former owner, as far as was seen
}

// New makes a member that has not begun; its first Step asks for a session and the state.
func New(cfg Config) *State {
	return &State{cfg: cfg, layout: cfg.Layout, units: make([]unit, cfg.Units), wantLoad: true}
}
