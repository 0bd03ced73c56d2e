package api

import "slices"

// Subscription is the definition of a subscription.
type Subscription struct {
	Name        string           `json:"name"`
	ID          string           `json:"id,omitempty"` // differs from that of a deleted subscription of the same name
	State       string           `json:"state"`        // creating, ready, paused or deleting
	Topic       string           `json:"topic"`
	Order       Order            `json:"order"`
	From        From             `json:"from"` // where it begins
	Retry       Retry            `json:"retry"`
	DeadLetters DeadLetterPolicy `json:"dead_letters"`       // what a record that is given up does to its key
	Endpoint    *Endpoint        `json:"endpoint,omitempty"` // nil: a handler or a command delivers
	Filter      string           `json:"filter,omitempty"`   // only records that this expression is true of are delivered
	Limits      *Limits          `json:"limits,omitempty"`   // nil: there are none
	Sets        []ShardSet       `json:"sets"`               // of shards: one that delivers, beside it one that begins or ends, and those of lately
	Created     Time             `json:"created,omitempty"`
	Paused      *Pause           `json:"paused,omitempty"`     // nil: it is not
	ResumedAt   Time             `json:"resumed_at,omitempty"` // when a pause ended last
	TakenAt     Time             `json:"taken_at,omitempty"`   // when the endpoint took a record for the first time
	Decisions   string           `json:"decisions,omitempty"`  // topic with what was decided about dead letters and parked records
	Damaged     string           `json:"damaged,omitempty"`    // why the definition can't be used; then only the name is known
}

// Order says what a subscription delivers in order. It can't be changed later.
type Order string

// The orders.
const (
	OrderByKey      Order = "key"      // the records of a key
	OrderByFunction Order = "function" // the records for whose keys a function of the members returns the same
	OrderNone       Order = "none"     // nothing: a failing record holds back no other
)

// DeadLetterPolicy says what a record that is given up does to its key.
type DeadLetterPolicy string

// The policies.
const (
	BlockKey   DeadLetterPolicy = "block" // it becomes a dead letter, and its key waits until it is decided about
	SkipRecord DeadLetterPolicy = "skip"  // it becomes a dead letter, and its key goes on
	DropRecord DeadLetterPolicy = "drop"  // it is gone
)

// From says where a group or a subscription begins.
type From string

// Where to begin.
const (
	Earliest From = "earliest" // the oldest record that is kept
	Latest   From = "latest"   // records produced from now on
)

// Retry says when a record that fails is tried again, and when it is given up.
type Retry struct {
	InitialMS   int64 `json:"initial_ms"` // pause after the first failure
	MaxMS       int64 `json:"max_ms"`     // longest pause
	HoldMS      int64 `json:"hold_ms"`    // how long the record is held in memory before it is parked; -1: not at all
	MaxAttempts int   `json:"max_attempts"`
	AfterMaxMS  int64 `json:"after_max_ms,omitempty"` // longest pause that an answer (Retry-After) may ask for; 0: max_ms, or an hour where that is more
}

// Endpoint is where a subscription is delivered to by HTTP.
type Endpoint struct {
	URL         string `json:"url"`                     // its parameters may hold a secret
	TimeoutMS   int64  `json:"timeout_ms,omitempty"`    // of one attempt; 0: the default of the daemon
	SecretFile  string `json:"secret_file,omitempty"`   // absolute path, on each host that delivers, of what requests are signed with
	CloudEvents bool   `json:"cloudevents,omitempty"`   // each request is a CloudEvent in binary mode
	GiveUpFirst bool   `json:"give_up_first,omitempty"` // 401, 403 and 404 give records up from the first on, and never pause the subscription
}

// Limits bound what all members of a subscription deliver together; 0: there is no bound.
type Limits struct {
	Rate        int `json:"rate,omitempty"`        // attempts that begin in a second
	Concurrency int `json:"concurrency,omitempty"` // attempts under way, at least one for each shard
}

// ShardSet is a set of shards of a subscription: reshard and reset make a new one.
type ShardSet struct {
	Set        int     `json:"set"`
	ID         string  `json:"id"`
	Storage    int     `json:"storage,omitempty"` // index of the storage topic that it delivers
	Shards     int     `json:"shards"`
	State      string  `json:"state"`              // making, active, closing or retired
	Since      Time    `json:"since,omitempty"`    // when that began; "": with the subscription
	PauseMS    int64   `json:"pause_ms,omitempty"` // how long one of its shards delivered nothing at most, when the set took over
	Group      string  `json:"group,omitempty"`    // consumer group of its members
	Journal    string  `json:"journal,omitempty"`  // topic that keeps what is parked
	DeadTopic  string  `json:"dead_topic,omitempty"`
	Starts     []int64 `json:"starts,omitempty"`      // of a reset: the offset at which it begins in each partition; -1: as it was
	DropParked bool    `json:"drop_parked,omitempty"` // of a reset: what was parked in those partitions is left behind
}

// Pause says since when a subscription delivers nothing, and why.
type Pause struct {
	Since  Time   `json:"since"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"` // the user that paused it, or "endpoint": an answer of the endpoint did
}

// Set is the shard set that delivers; the zero value of a damaged definition.
func (s *Subscription) Set() ShardSet {
	var last ShardSet
	for _, set := range s.Sets {
		if set.State == "active" || last.ID == "" {
			last = set
		}
	}
	return last
}

// Group is the consumer group of the shard set that delivers.
func (s *Subscription) Group() string { return s.Set().Group }

// Changing says whether a reshard or a reset is under way.
func (s *Subscription) Changing() bool {
	return slices.ContainsFunc(s.Sets, func(set ShardSet) bool { return set.State == "making" || set.State == "closing" })
}

// Closing is the set whose shards are to end; false: there is none.
func (s *Subscription) Closing() (ShardSet, bool) {
	for _, set := range s.Sets {
		if set.State == "closing" {
			return set, true
		}
	}
	return ShardSet{}, false
}

// Backlog counts what a subscription has taken from its topic and holds back. What it has not read yet is the lag of its
// group, and what its members hold in memory is counted nowhere.
type Backlog struct {
	Parked  Heap `json:"parked"`  // records that are tried again, or wait behind one of their key
	Dead    Heap `json:"dead"`    // dead letters
	Blocked int  `json:"blocked"` // of the parked records, those behind a dead letter
	Failing int  `json:"failing"` // of the parked records, those that have failed; the others are delayed, or wait behind one
}

// Heap counts records.
type Heap struct {
	Records  int  `json:"records"`
	Keys     int  `json:"keys"`                // of those that have one
	OldestAt Time `json:"oldest_at,omitempty"` // when the oldest was produced; "": there is none, or it is not known
}

// Reset says what sending a subscription to another place does. The numbers are those of the moment when it was planned;
// in a log whose offsets have gaps they are upper bounds.
type Reset struct {
	Name       string          `json:"name"`
	To         string          `json:"to"`
	Begun      bool            `json:"begun"` // false: a dry run. Members carry it out, as soon as there are some
	DropParked bool            `json:"drop_parked"`
	Storage    int             `json:"storage"` // where it begins
	Shards     int             `json:"shards"`  // that begin there
	Earlier    int             `json:"earlier"` // parked records and dead letters of earlier storage topics: they stay, or all are dropped
	Positions  []ResetPosition `json:"positions"`
}

// ResetPosition is what a reset does in one partition.
type ResetPosition struct {
	Storage   int   `json:"storage"`
	Partition int   `json:"partition"`
	From      int64 `json:"from"` // everything below was finished or parked; -1: it was not begun
	To        int64 `json:"to"`
	Next      int64 `json:"next"`    // end of the partition
	Again     int64 `json:"again"`   // finished records that are delivered again
	Skipped   int64 `json:"skipped"` // unfinished records that are passed over
	Anew      int   `json:"anew"`    // parked records and dead letters that begin anew
	Kept      int   `json:"kept"`    // parked records and dead letters that stay so
	Dropped   int   `json:"dropped"` // parked records and dead letters that are left behind, and never delivered
}

// Reshard says what a change of the number of shards does.
type Reshard struct {
	Name   string     `json:"name"`
	From   int        `json:"from"`
	To     int        `json:"to"`
	Begun  bool       `json:"begun"`  // false: a dry run. Members carry it out, as soon as there are some
	Parked int        `json:"parked"` // parked records and dead letters that are handed over
	Shards []NewShard `json:"shards"`
}

// NewShard is one shard of a set to come.
type NewShard struct {
	Shard      int   `json:"shard"`
	Partitions []int `json:"partitions"` // that it reads
	After      []int `json:"after"`      // the shards of now that end before it begins
}
