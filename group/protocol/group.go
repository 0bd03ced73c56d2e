package protocol

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/registry"
)

// The keys of a group <g>; unit numbers are eight digits, so that they sort.
//
//	groups/<g>/meta             Meta
//	groups/<g>/members/<id>     Member, bound to its session
//	groups/<g>/static/<id>      StaticMember, outlives the session of a static member
//	groups/<g>/owners/<unit>    Owner: who may write the checkpoint; changes only with the epoch
//	groups/<g>/assignment       Assignment: who should own each unit
//	groups/<g>/control          Control: paused
//	checkpoints/<g>/<unit>      Checkpoint, written under a check on the owner entry. It lies outside of the
//	                            watched prefix: a notification for each would wake every member
//
// Members watch groups/<g>/. Checkpoints lie elsewhere, so that they wake nobody.

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
	// Initial is how many of the units the group was created for, when later ones joined them: it
	// began those where it was told to, and the later ones begin at their first record. 0: all.
	Initial int `json:"initial,omitempty"`
	// Layout names what the units read, for who works on it: it is fixed for the life of the group. "":
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

// Owner says who may write the checkpoint of a unit. It changes only together with its epoch, so a check on
// its version is the fence. Nothing else may ever be written into it: a planned move stands in Assignment. A
// member that reads the version again in order to commit has no fence.
type Owner struct {
	Member      string `json:"member"` // "": nobody
	Incarnation string `json:"incarnation"`
	Epoch       int64  `json:"epoch"`           // fencing token, higher at every change, see NextEpoch
	After       int64  `json:"after,omitempty"` // the epoch that it followed; 0: none
	Reason      string `json:"reason"`          // why it changed, for people: "handoff from a", "a died", "seek to 42"
	Since       int64  `json:"since"`           // Unix ms, informative
}

// Assignment says who should own each unit. Only units whose owner differs move.
type Assignment struct {
	Version  int64    `json:"version"`
	By       string   `json:"by"`              // who computed it
	Reason   string   `json:"reason"`          // for people: "b joined"
	Members  []string `json:"members"`         // the members it was computed from, "id@incarnation", sorted
	Targets  []string `json:"targets"`         // member ID by unit; "": nobody
	First    int      `json:"first,omitempty"` // Meta.First that it was computed for
	Assignor string   `json:"assignor"`
}

// Control is what people set on a live group.
type Control struct {
	Paused      bool   `json:"paused"`
	PausedUnits []int  `json:"paused_units,omitempty"`
	By          string `json:"by,omitempty"`
}

// Range is a half-open range of offsets [From, To), written as [from,to].
type Range [2]int64

// Position is how far a unit got in one partition.
type Position struct {
	Storage   int     `json:"storage"`
	Partition int     `json:"partition"`
	Next      int64   `json:"next"`           // the lowest unfinished offset: the checkpoint
	Done      []Range `json:"done,omitempty"` // finished ranges above Next, sorted, disjoint

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
	Pause    int64 `json:"pause"`    // from the last failure until then: nobody waits longer, whatever clocks say
}

// MaxFailing bounds how many records that fail a position names.
const MaxFailing = 1000

// SamePositions says whether two checkpoints tell the same.
func SamePositions(a, b []Position) bool {
	return slices.EqualFunc(a, b, func(x, y Position) bool {
		return x.Storage == y.Storage && x.Partition == y.Partition && x.Next == y.Next && slices.Equal(x.Done, y.Done) && slices.Equal(x.Failing, y.Failing)
	})
}

// Checkpoint is the progress of a unit: one position for each partition that it has touched, at most MaxInputs.
type Checkpoint struct {
	Positions []Position `json:"positions"`
	From      int64      `json:"from,omitempty"` // of a subscription: where its journal is read from, see subscription/core
	Epoch     int64      `json:"epoch"`          // of the owner that wrote it
	Member    string     `json:"member"`         // that owner, informative
	Updated   int64      `json:"updated"`

	Deliveries *Deliveries `json:"deliveries,omitempty"` // of a subscription: for people, and nil where there is nothing to tell
}

// Unit is what the registry knows of one unit. A unit that nobody ever owned has a zero Owner
// (Epoch 0) and version "".
type Unit struct {
	Number            int
	Owner             Owner
	OwnerVersion      registry.Version
	Checkpoint        *Checkpoint // nil: none was ever written
	CheckpointVersion registry.Version

	// What is stored in the place of the owner or of the checkpoint, and is none: nobody may claim the unit,
	// or begin it, as nobody knows who owns it and how far it got. A seek puts both in order.
	OwnerDamage, CheckpointDamage error
}

// DamagedUnitError says that what is stored of a unit can't be read.
type DamagedUnitError struct {
	Unit int
	Err  error // names the key
}

func (e *DamagedUnitError) Error() string { return e.Err.Error() }

func (e *DamagedUnitError) Unwrap() error { return e.Err }

// Damage is what keeps a unit from being worked on; nil: nothing does.
func (u *Unit) Damage() error {
	if u.OwnerDamage != nil {
		return u.OwnerDamage
	}
	return u.CheckpointDamage
}

// Grant is the right to write the checkpoint of a unit, as it was given at a claim or handoff.
type Grant struct {
	Unit    int
	Epoch   int64
	Version registry.Version // of the owner entry when it was granted: the fence
}

// Group is the domain operations of one consumer group. It has no state and starts nothing.
type Group struct {
	r           *registry.Registry
	name        string
	owners      string // prefixes of the keys that are made most often
	checkpoints string
	life        string // the only one that is meant; "": whichever is there
}

// NewGroup returns the operations on the group of that name; ErrInvalid when it can't be a name.
func NewGroup(r *registry.Registry, name string) (*Group, error) {
	if err := registry.CheckID("group", name); err != nil {
		return nil, err
	}
	return &Group{r: r, name: name, owners: "groups/" + name + "/owners/", checkpoints: "checkpoints/" + name + "/"}, nil
}

// Within is the group as long as it is in that life (Meta.Life). What changes the group on somebody's
// behalf (Seek, Grow, Pause, Resume, Register) then fails with ErrNotFound in another one, Delete does
// nothing there, and Meta is ErrNotFound.
func (g *Group) Within(life string) *Group {
	of := *g
	of.life = life
	return &of
}

// Registry is the store that the group is in.
func (g *Group) Registry() *registry.Registry { return g.r }

// Name is the group's name.
func (g *Group) Name() string { return g.name }

// WatchPrefix is the prefix under which all but checkpoints changes.
func (g *Group) WatchPrefix() string { return "groups/" + g.name + "/" }

// MetaKey and the others below are the keys of the group's documents.
func (g *Group) MetaKey() string { return "groups/" + g.name + "/meta" }

// MemberKey is the key of a member that is alive.
func (g *Group) MemberKey(id string) string { return "groups/" + g.name + "/members/" + id }

// StaticKey is the key of what is remembered of a static member.
func (g *Group) StaticKey(id string) string { return "groups/" + g.name + "/static/" + id }

// AssignmentKey is the key of who should own what.
func (g *Group) AssignmentKey() string { return "groups/" + g.name + "/assignment" }

// ControlKey is the key of what people ordered: pauses.
func (g *Group) ControlKey() string { return "groups/" + g.name + "/control" }

// OwnerKey is the key of who owns a unit, under which epoch.
func (g *Group) OwnerKey(unit int) string { return unitKey(g.owners, unit) }

// CheckpointKey is the key of how far a unit got.
func (g *Group) CheckpointKey(unit int) string { return unitKey(g.checkpoints, unit) }

// unitKey appends the unit's number in eight digits, or as many as it needs.
func unitKey(prefix string, unit int) string {
	digits := [8]byte{'0', '0', '0', '0', '0', '0', '0', '0'}
	rest := unit
	for i := len(digits) - 1; rest > 0 && i >= 0; i-- {
		digits[i] = byte('0' + rest%10)
		rest /= 10
	}
	if rest != 0 {
		return fmt.Sprintf("%s%08d", prefix, unit)
	}
	return prefix + string(digits[:])
}

// State is a consistent reading of a group.
type State struct {
	Revision          int64
	Time              int64 // the store's time of day, Unix ms
	Meta              *Meta // nil: the group does not exist
	MetaVersion       registry.Version
	Members           []Member
	MemberVersions    []registry.Version
	Static            []StaticMember
	Units             []Unit // Meta.Units of them; without checkpoints unless asked for
	Assignment        *Assignment
	AssignmentVersion registry.Version
	AssignmentDamage  error // of what can't be read: it counts as none, and the next plan replaces it
	Control           Control
	ControlVersion    registry.Version
	// Strange are the keys of entries that should not be there: of units that the group has not got,
	// of a unit or member by another name than its own, of a member that is bound to no session, or of a
	// group that was deleted. They do no harm; see Heal for those of no group.
	Strange []string
	// Strays are the versions of those in the places of members, by the member's ID: who takes the place
	// of such a member, or goes by its absence, goes by that.
	Strays map[string]registry.Version
}

// unreadable is a member of whose entry only the key says anything.
func unreadable(id string) Member { return Member{ID: id, Draining: true, Unreadable: true} }

// stray notes what is in the place of a member, and is none.
func (st *State) stray(e registry.Entry, id string) {
	st.Strange = append(st.Strange, e.Key)
	if st.Strays == nil {
		st.Strays = map[string]registry.Version{}
	}
	st.Strays[id] = e.Version
}

// Load reads the group's state in one consistent list; with checkpoints it takes a second one,
// of which each checkpoint is at least as new as its owner entry. An owner or a checkpoint that can't be
// read is an error that names its key, see Survey.
func (g *Group) Load(ctx context.Context, checkpoints bool) (*State, error) {
	st, err := g.Survey(ctx, checkpoints)
	if err != nil {
		return nil, err
	}
	for i := range st.Units {
		if err := st.Units[i].Damage(); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// Survey is Load for who can do without the units that can't be read: those say so, and stop no other.
func (g *Group) Survey(ctx context.Context, checkpoints bool) (*State, error) {
	return g.survey(ctx, checkpoints, func(units int, _ []registry.Entry) []Unit {
		all := make([]Unit, units)
		for i := range all {
			all[i].Number = i
		}
		return all
	})
}

// Sketch is Survey for who only looks: of the units it has those alone that the store has something of, by
// number. So it takes no room for units that are nothing but a number in the document.
func (g *Group) Sketch(ctx context.Context, checkpoints bool) (*State, error) {
	return g.survey(ctx, checkpoints, func(units int, known []registry.Entry) []Unit {
		var all []Unit
		for _, e := range known {
			if n, err := unitOf(e.Key); err == nil && n < units {
				all = append(all, Unit{Number: n})
			}
		}
		slices.SortFunc(all, func(a, b Unit) int { return a.Number - b.Number })
		return slices.CompactFunc(all, func(a, b Unit) bool { return a.Number == b.Number })
	})
}

// survey reads a group; units makes those of so many that it has room for, of what the store has of units.
func (g *Group) survey(ctx context.Context, checkpoints bool, units func(int, []registry.Entry) []Unit) (*State, error) {
	snap, err := g.r.List(ctx, g.WatchPrefix())
	if err != nil {
		return nil, err
	}
	st := &State{Revision: snap.Revision, Time: snap.Time}
	var owners []registry.Entry
	for _, e := range snap.Entries {
		rest := strings.TrimPrefix(e.Key, g.WatchPrefix())
		kind, _, _ := strings.Cut(rest, "/")
		switch kind {
		case "meta":
			st.Meta, st.MetaVersion = new(Meta), e.Version
			err = decode(e, st.Meta)
		case "members":
			var m Member
			id := strings.TrimPrefix(rest, "members/")
			switch failed := decode(e, &m); {
			case e.Session == "" || failed == nil && m.ID != id:
				st.stray(e, id)
				continue
			case failed != nil:
				m = unreadable(id)
			}
			st.Members = append(st.Members, m)
			st.MemberVersions = append(st.MemberVersions, e.Version)
		case "static":
			var m StaticMember
			err = decode(e, &m)
			st.Static = append(st.Static, m)
		case "assignment":
			st.Assignment, st.AssignmentVersion = new(Assignment), e.Version
			if st.AssignmentDamage = decode(e, st.Assignment); st.AssignmentDamage != nil {
				st.Assignment = nil
			}
		case "control":
			st.ControlVersion = e.Version
			err = decode(e, &st.Control)
		case "owners":
			owners = append(owners, e)
		}
		if err != nil {
			return nil, err
		}
	}
	if st.Meta == nil || st.Meta.Deleting {
		st.Meta, st.MetaVersion = nil, ""
		return st, g.remains(ctx, st, snap.Entries)
	}
	st.Strange = append(st.Strange, snap.Odd...)
	var stored []registry.Entry
	if checkpoints {
		points, err := g.r.List(ctx, g.checkpoints)
		if err != nil {
			return nil, err
		}
		stored = points.Entries
	}
	st.Units = units(st.Meta.Units, slices.Concat(owners, stored))
	for _, e := range owners {
		u := st.known(e.Key, g.OwnerKey)
		if u == nil {
			continue
		}
		u.OwnerVersion = e.Version
		if err := decode(e, &u.Owner); err != nil {
			u.Owner, u.OwnerDamage = Owner{}, &DamagedUnitError{u.Number, err}
		}
	}
	for _, e := range stored {
		u, c := st.known(e.Key, g.CheckpointKey), new(Checkpoint)
		if u == nil {
			continue
		}
		u.CheckpointVersion = e.Version
		if err := decode(e, c); err != nil {
			u.CheckpointDamage = &DamagedUnitError{u.Number, err}
			continue
		}
		u.Checkpoint = c
	}
	return st, nil
}

// known is the unit that a key is of; nil, and noted as strange: of none.
func (st *State) known(key string, keyOf func(int) string) *Unit {
	n, err := unitOf(key)
	if err == nil && n < st.Meta.Units && key == keyOf(n) {
		return st.Unit(n)
	}
	st.Strange = append(st.Strange, key)
	return nil
}

// Unit is what is known of a unit; nil: the store has nothing of it, or there is no such unit.
func (st *State) Unit(n int) *Unit {
	at, ok := slices.BinarySearchFunc(st.Units, n, func(u Unit, n int) int { return u.Number - n })
	if !ok {
		return nil
	}
	return &st.Units[at]
}

// remains notes what there is of a group that is not there.
func (g *Group) remains(ctx context.Context, st *State, entries []registry.Entry) error {
	snap, err := g.r.List(ctx, g.checkpoints)
	if err != nil {
		return err
	}
	for _, e := range append(entries, snap.Entries...) {
		st.Strange = append(st.Strange, e.Key)
	}
	return nil
}

func unitOf(key string) (int, error) {
	n, err := strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
	if err != nil || n < 0 {
		return 0, fmt.Errorf("registry key %q does not end in a unit number", key)
	}
	return n, nil
}
