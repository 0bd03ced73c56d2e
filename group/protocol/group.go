package protocol

import (
	"fmt"

	"github.com/ringfence/ringfence/registry"
)

// Group has the operations of one consumer group. It has no state and starts nothing.
type Group struct {
	r           *registry.Registry
	name        string
	owners      string // prefixes of the keys that are made most often
	checkpoints string
	life        string // the only one that is meant; "": whichever is there
}

// NewGroup returns the operations on the group of that name; ErrInvalid for an impossible name.
func NewGroup(r *registry.Registry, name string) (*Group, error) {
	if err := registry.CheckID("group", name); err != nil {
		return nil, err
	}
	return &Group{r: r, name: name, owners: "groups/" + name + "/owners/", checkpoints: "checkpoints/" + name + "/"}, nil
}

// Within is the group of that ID (Meta.Life). In a later group of the name, Seek, Grow, Pause, Resume and Meta
// are ErrNotFound, and Delete does nothing.
func (g *Group) Within(life string) *Group {
	of := *g
	of.life = life
	return &of
}

// Registry is the group's store.
func (g *Group) Registry() *registry.Registry { return g.r }

// Name is the group's name.
func (g *Group) Name() string { return g.name }

// WatchPrefix is the prefix under which all but checkpoints changes.
func (g *Group) WatchPrefix() string { return "groups/" + g.name + "/" }

// MetaKey and the others below are the keys of the group's documents.
func (g *Group) MetaKey() string { return "groups/" + g.name + "/meta" }

// MemberKey is the key of a member that is alive.
func (g *Group) MemberKey(id string) string { return "groups/" + g.name + "/members/" + id }

// StaticKey is the key of a static member's restart window.
func (g *Group) StaticKey(id string) string { return "groups/" + g.name + "/static/" + id }

// AssignmentKey is the key of the assignment.
func (g *Group) AssignmentKey() string { return "groups/" + g.name + "/assignment" }

// ControlKey is the key of the orders of people: pauses.
func (g *Group) ControlKey() string { return "groups/" + g.name + "/control" }

// OwnerKey is the key of a unit's owner and epoch.
func (g *Group) OwnerKey(unit int) string { return unitKey(g.owners, unit) }

// CheckpointKey is the key of a unit's progress.
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
