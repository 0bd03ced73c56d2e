package api

// Group describes a consumer group.
type Group struct {
	Name       string     `json:"name"`
	Topic      string     `json:"topic"`
	State      string     `json:"state"` // running, paused, no members or damaged
	Assignor   string     `json:"assignor"`
	Paused     bool       `json:"paused"`
	PausedBy   string     `json:"paused_by,omitempty"` // the user that paused it, or units of it, last
	PausedAt   Time       `json:"paused_at,omitempty"`
	Members    []Member   `json:"members"`           // that live
	Awaited    []string   `json:"awaited,omitempty"` // static members that are away and may come back
	Assignment Assignment `json:"assignment"`        // why the units are where they are
	Units      []Unit     `json:"units,omitempty"`   // DescribeGroup only
	Lag        int64      `json:"lag"`               // records that are not processed, over all units; DescribeGroup only
	Dropped    int64      `json:"dropped,omitempty"` // records that retention took before the group processed them, over all units; DescribeGroup only
	Later      int64      `json:"later,omitempty"`   // of them in storage topics that the group of a subscription does not read yet
	OldestMS   int64      `json:"oldest_ms"`         // age of the oldest record that is not processed; 0: none; DescribeGroup only
	Damaged    string     `json:"damaged,omitempty"` // why the group can't be read; then only the name is known

	Failing *FailingRecord `json:"failing,omitempty"` // that has failed for the longest; nil: none fails, or owners don't store it; DescribeGroup only
}

// Member describes a live member of a group.
type Member struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"` // of this start of the member
	Host        string `json:"host,omitempty"`
	PID         int    `json:"pid,omitempty"`
	Weight      int    `json:"weight"`
	Zone        string `json:"zone,omitempty"`
	Static      bool   `json:"static,omitempty"`
	Draining    bool   `json:"draining,omitempty"`
	Joined      Time   `json:"joined"`
	Units       int    `json:"units"`                // that it owns
	Unreadable  bool   `json:"unreadable,omitempty"` // its entry is of another version; it keeps its units while its session lives
}

// Assignment says which member computed the assignment of units to members, and why.
type Assignment struct {
	Version int64  `json:"version"`
	By      string `json:"by"` // a member
	Reason  string `json:"reason"`
}

// Unit describes a unit of a group: its owner, its epoch, and how far it got. Units are the partitions of all storage
// topics of the topic, numbered through, or the shards of a subscription; those of retired storage topics are left out.
type Unit struct {
	Unit       int         `json:"unit"`
	Phase      Phase       `json:"phase"`
	Owner      string      `json:"owner"` // "": none
	Alive      bool        `json:"alive"` // the owner is a live member
	Epoch      int64       `json:"epoch"`
	Target     string      `json:"target,omitempty"` // the member that should own it, when that is another one
	Why        string      `json:"why"`              // why the owner has it
	Positions  []Position  `json:"positions"`
	Lag        int64       `json:"lag"`
	Dropped    int64       `json:"dropped,omitempty"` // records that retention took before they were processed
	OldestMS   int64       `json:"oldest_ms"`         // age of the oldest record that is not processed; 0: none
	Paused     bool        `json:"paused,omitempty"`
	StoredAt   Time        `json:"stored_at,omitempty"`  // when its progress was stored last; "": never
	Deliveries *Deliveries `json:"deliveries,omitempty"` // as its owner stored it; nil: no owner, or nothing stored
}

// Phase is what is going on with a unit.
type Phase string

// The phases.
const (
	Unowned  Phase = "unowned"  // it never had an owner, or was released
	Owned    Phase = "owned"    // its owner lives and should have it
	Moving   Phase = "moving"   // its owner lives; Target should have it
	Orphaned Phase = "orphaned" // its owner is dead; Target takes it over
	Awaiting Phase = "awaiting" // its owner is a static member that may come back
	Paused   Phase = "paused"   // its owner lives and rests
	Finished Phase = "finished" // it is sealed and processed; it needs no owner
	Waiting  Phase = "waiting"  // it starts when units of the storage topic before are finished
)

// Position is how far a unit got in one partition.
type Position struct {
	Storage    int    `json:"storage"`
	Partition  int    `json:"partition"`
	Checkpoint int64  `json:"checkpoint"` // next offset to process; -1: none was ever stored
	Done       int64  `json:"done"`       // records finished above it
	First      int64  `json:"first"`      // lowest offset that is kept
	Next       int64  `json:"next"`       // end of the partition
	Lag        int64  `json:"lag"`
	Dropped    int64  `json:"dropped,omitempty"` // records from the checkpoint to First that retention took before they were processed
	OldestMS   int64  `json:"oldest_ms"`         // age of the record at the checkpoint; 0: none
	Damaged    string `json:"damaged,omitempty"` // what is wrong with the checkpoint or the record there, and where to seek
}

// Seek says where a group was sent, or would be.
type Seek struct {
	Group     string         `json:"group"`
	To        string         `json:"to"`
	Done      bool           `json:"done"` // false: a dry run
	Positions []SeekPosition `json:"positions"`
}

// SeekPosition is where a group was sent in one partition.
type SeekPosition struct {
	Storage    int   `json:"storage"`
	Partition  int   `json:"partition"`
	From       int64 `json:"from"`       // next offset to process before; -1: none was ever stored
	Checkpoint int64 `json:"checkpoint"` // and now
	First      int64 `json:"first"`      // lowest offset that is kept
	Next       int64 `json:"next"`       // end of the partition
	Lag        int64 `json:"lag"`
}

// GroupPause says what of a group was paused or resumed.
type GroupPause struct {
	Group      string `json:"group"`
	Paused     bool   `json:"paused"`
	All        bool   `json:"all"`        // every partition
	Partitions []int  `json:"partitions"` // those it is about
}
