package protocol

import "slices"

// The keys of a group <g>; unit numbers are eight digits, so that they sort.
//
//	groups/<g>/meta             Meta
//	groups/<g>/members/<id>     Member, bound to its session
//	groups/<g>/static/<id>      StaticMember, outlives the session of a static member
//	groups/<g>/owners/<unit>    Owner: the member that may write the checkpoint; changes only with the epoch
//	groups/<g>/assignment       Assignment: the member that should own each unit
//	groups/<g>/control          Control: paused
//	checkpoints/<g>/<unit>      Checkpoint, written under checks on the owner entry and on the checkpoint before it
//
// Members watch groups/<g>/. Checkpoints lie outside of it: a notification for each would wake every member.

// MaxUnits is how many units a group may have: a reading of it has room for each.
const MaxUnits = 1 << 20

// MaxInputs is how many partitions a unit may read, and so how many positions a checkpoint may have: all
// of them fit into MaxValueBytes, and are written at each commit.
const MaxInputs = 1024

// Meta describes a group. The first member writes it; it changes when what the group consumes grows.
//
// The document is the group. A transaction that can make an entry where there was none checks its version, and
// every other one checks an entry that a deletion takes away: a member entry without the document, even for a
// moment, is half a group. The document itself is founded and changed under a check on the definition of the
// topic. Otherwise a member that stood still tells the next topic of the name what was finished in the last.
type Meta struct {
	Format int `json:"format"` // 1
	// Life tells this group from those that had its name before, and will. It is made with the group
	// and never again, and stays as long as the group is there.
	Life  string `json:"life"`
	Topic string `json:"topic"` // what it consumes
	Units int    `json:"units"` // never fewer than before
	// First is the lowest unit that is worked on: those below are finished for ever and need no
	// owner. A seek to a place in one of them lowers it.
	First int `json:"first,omitempty"`
	// Sought: units were sought, so those that come after one may have begun before it was finished.
	Sought bool `json:"sought,omitempty"`
	// Retired is the highest epoch of the units whose entries were removed as they are finished; 0: none.
	Retired int64 `json:"retired,omitempty"`
	// Initial is how many of the units the group was created for, when later ones joined them: it
	// began those where it was told to, and the later ones begin at their first record. 0: all.
	Initial int `json:"initial,omitempty"`
	// Layout names what the units read. It is fixed for the life of the group. "":
	// each one partition of the topic, numbered through all storage topics.
	Layout   string `json:"layout,omitempty"`
	Assignor string `json:"assignor"`
	Created  int64  `json:"created"` // Unix ms
	Deleting bool   `json:"deleting,omitempty"`
}

// Member is one running consumer.
type Member struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"` // of this start; unique for ever
	Weight      int    `json:"weight,omitempty"`
	Zone        string `json:"zone,omitempty"`
	Static      bool   `json:"static,omitempty"`
	Draining    bool   `json:"draining,omitempty"` // is leaving: give it nothing, take what it has
	Host        string `json:"host,omitempty"`
	PID         int    `json:"pid,omitempty"`
	Joined      int64  `json:"joined"` // Unix ms, informative

	// Unreadable: a session keeps the entry, which holds no valid document; a newer version may have
	// written it. It is a member of which nothing but the ID is known: what it owns stays its own, and it
	// is given nothing.
	Unreadable bool `json:"-"`
}

// StaticMember keeps the units of a static member through its restart window.
type StaticMember struct {
	ID            string `json:"id"`
	RestartMillis int64  `json:"restart_ms"`
}

// Owner names the member that may write the checkpoint of a unit. It changes only together with its epoch, so a
// check on its version is the fence. Nothing else may ever be written into it: a planned move stands in
// Assignment. A member that reads the version again in order to commit has no fence.
type Owner struct {
	Member      string `json:"member"` // "": none
	Incarnation string `json:"incarnation"`
	Epoch       int64  `json:"epoch"`           // higher at every change, see NextEpoch
	After       int64  `json:"after,omitempty"` // the epoch that it followed; 0: none
	Reason      string `json:"reason"`          // why it changed, for people: "handoff from a", "a died", "seek to 42"
	Since       int64  `json:"since"`           // Unix ms, informative
}

// Assignment names the member that should own each unit. Only units whose owner differs move.
type Assignment struct {
	Version  int64    `json:"version"`
	By       string   `json:"by"`              // the member that computed it
	Reason   string   `json:"reason"`          // for people: "b joined"
	Members  []string `json:"members"`         // the members it was computed from, "id@incarnation", sorted
	Targets  []string `json:"targets"`         // member ID by unit; "": none
	First    int      `json:"first,omitempty"` // Meta.First that it was computed for
	Assignor string   `json:"assignor"`
}

// Control is what people set on a live group.
type Control struct {
	Paused      bool   `json:"paused"`
	PausedUnits []int  `json:"paused_units,omitempty"`
	By          string `json:"by,omitempty"` // the user of the last change
	At          int64  `json:"at,omitempty"` // of it, in Unix milliseconds
}

// Range is a half-open range of offsets [From, To), written as [from,to].
type Range [2]int64

// Stamp is the offset and the time of one record, as the log has it, written as [offset,time]. The zero value: none.
type Stamp [2]int64

// Known reports whether the stamp is that of a record.
func (s Stamp) Known() bool { return s[0] >= 0 && s != Stamp{} }

// Position is how far a unit got in one partition.
type Position struct {
	Storage   int     `json:"storage"`
	Partition int     `json:"partition"`
	Next      int64   `json:"next"`           // the lowest unfinished offset: the checkpoint
	Done      []Range `json:"done,omitempty"` // finished ranges above Next, sorted, disjoint

	// Last is the record before Next, and Top the highest of Done and Failing: a log that has not got them went back.
	// None where the owner has read nothing there, as after a seek. Last is [-1,0] where it is not known; Top is then.
	Last Stamp `json:"last,omitzero"`
	Top  Stamp `json:"top,omitzero"`

	// Failing are records that were tried without success and are held for their next attempt, sorted; at
	// most MaxFailing. Only a subscription stores them.
	Failing []Failing `json:"failing,omitempty"`
}

// Failing is what an heir has to know of a record that fails. Times are in Unix milliseconds.
type Failing struct {
	Offset   int64 `json:"offset"`
	Attempts int   `json:"attempts"` // that have failed
	Since    int64 `json:"since"`    // of the first failure
	Due      int64 `json:"due"`      // of the next attempt
	Pause    int64 `json:"pause"`    // from the last failure to Due: bounds the wait, whatever clocks say
}

// MaxFailing bounds how many failing records a position names.
const MaxFailing = 1000

// SamePositions reports whether two checkpoints have the same positions.
func SamePositions(a, b []Position) bool {
	return slices.EqualFunc(a, b, func(x, y Position) bool {
		return x.Storage == y.Storage && x.Partition == y.Partition && x.Next == y.Next && x.Last == y.Last && x.Top == y.Top && slices.Equal(x.Done, y.Done) && slices.Equal(x.Failing, y.Failing)
	})
}

// Checkpoint is the progress of a unit: one position for each partition that it has touched, at most MaxInputs.
type Checkpoint struct {
	Positions []Position `json:"positions"`
	From      int64      `json:"from,omitempty"` // of a subscription: where its journal is read from, see subscription/core
	Epoch     int64      `json:"epoch"`          // of the owner that wrote it
	Member    string     `json:"member"`         // that owner, informative
	Updated   int64      `json:"updated"`

	Deliveries *Deliveries `json:"deliveries,omitempty"` // for people, and nil where there is nothing to tell
}
