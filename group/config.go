package group

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// Config describes a member of a group. Registry, Group, Topic, Units and Member are needed.
type Config struct {
	Registry *registry.Registry
	Sessions *protocol.Sessions // of the process, for Registry, shared with other members; nil: the member has its own
	Group    string
	Topic    string   // what the group consumes; the same for all members
	Units    int      // how many units there are; the same for all members
	Zones    []string // by unit: its preferred zone; nil or too short: anywhere

	// Layout, when not nil, says how the units depend on each other, in place of Units: the group can
	// then grow. A newer one comes from Layouts (nil: never), with all the units of the one before
	// and maybe more. Initial is how many units a new group is created for (0: all): later ones are
	// told by Meta.Initial. First is the first that a new group works on: those before are over.
	// LayoutName is stored with the group, and the same for all members: a member with other units of
	// the topic is refused.
	Layout     Layout
	LayoutName string
	Closed     bool // there will be no more units, so that all of them may be over
	Layouts    <-chan Layout
	Refresh    func(context.Context) (Layout, error) // reads the newest; nil: Layout is
	Initial    int
	First      int
	// Defined holds while the topic keeps the definition that Refresh read last. A group is founded, and grows,
	// under that check; where it fails, Refresh is called. nil: nothing is checked.
	Defined func() registry.Check

	// Member is the ID in the group. When it is started again while it runs, the newest start wins
	// and the others end with ErrFenced.
	Member      string
	Incarnation string // of this start, unique for ever; default random
	Weight      int    // share of the units relative to the others; default 1
	Zone        string // where the member runs

	// Static keeps the units of an absent member for it, for RestartWindow (default 30 s).
	Static        bool
	RestartWindow time.Duration

	// WorkersCommit: the workers store the checkpoints themselves, under the unit's grant. Progress
	// then only says where the unit ends for ever, once all before it was stored.
	WorkersCommit bool

	Assignor assign.Assignor // default assign.Sticky{}; the same for all members

	SessionTTL      time.Duration // a silent member is dead after that; default Registry.SessionTTL: 5 s, on etcd 2 s
	DrainTimeout    time.Duration // for running handlers when a unit moves or Run ends; default 10 s
	CancelGrace     time.Duration // for cancelled handlers to return; default 1 s
	CommitInterval  time.Duration // between two checkpoints of a unit; default 100 ms
	ProgressTimeout time.Duration // a handler that runs longer is cancelled; default 0: never

	Logger *slog.Logger // default: discard
	Events Events
}

// Layout, LayoutUnit and UnitInput say what units read and how they depend on each other.
type (
	Layout     = core.Layout
	LayoutUnit = core.LayoutUnit
	UnitInput  = core.UnitInput
)

// Events report what happens. Each may be nil. They are called one at a time and must not block.
type Events struct {
	Joined     func(incarnation string)
	Assigned   func(unit int, epoch int64, from, why string) // from: its former owner; "": unknown or none
	Revoked    func(unit int, epoch int64, why string)       // it is being drained or stopped here
	HandedOver func(unit int, epoch int64, to, why string)   // epoch is the new owner's; to "": no owner
	Fenced     func(unit int, epoch int64, why string)       // it was taken away, or a seek began a new epoch
	Committed  func(unit int, epoch int64)
	Paused     func(why string) // nothing runs until there is a new session
	Trouble    func(unit int, what string, err error)
}

// sweep is how often a member looks at the store without a hint of a change.
const sweep = 30 * time.Second

func (c Config) withDefaults() Config {
	c.Weight = cmp.Or(c.Weight, 1)
	c.RestartWindow = cmp.Or(c.RestartWindow, 30*time.Second)
	c.SessionTTL = cmp.Or(c.SessionTTL, c.Registry.SessionTTL())
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 10*time.Second)
	c.CancelGrace = cmp.Or(c.CancelGrace, time.Second)
	c.CommitInterval = cmp.Or(c.CommitInterval, 100*time.Millisecond)
	if c.Layout != nil {
		c.Units = len(c.Layout)
	}
	c.Assignor = cmp.Or[assign.Assignor](c.Assignor, assign.Sticky{})
	c.Incarnation = cmp.Or(c.Incarnation, rand.Text()[:12])
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// LongestTime bounds every duration of a Config: sums of some of them are valid too.
const LongestTime = 365 * 24 * time.Hour

// Validate reports every fault of c at once; nil when there is none.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("group %q: %s: %w", c.Group, fmt.Sprintf(format, args...), fault.Invalid))
		}
	}
	demand(c.Registry != nil, "no Registry")
	errs = append(errs, registry.CheckID("group", c.Group), registry.CheckID("member", c.Member))
	demand(c.Topic != "", "no Topic")
	demand(c.Units > 0, "%d units; expected at least 1", c.Units)
	demand(c.Zones == nil || len(c.Zones) == c.Units || c.Layout != nil && len(c.Zones) < c.Units,
		"%d zones for %d units; expected one a unit, or none", len(c.Zones), c.Units)
	for n := range c.Layout {
		inputs := len(c.Layout[n].Inputs)
		demand(inputs > 0 && inputs <= protocol.MaxInputs, "unit %d reads %d partitions; expected 1 to %d", n, inputs, protocol.MaxInputs)
	}
	demand(c.Weight > 0, "weight %d; expected at least 1 (0: default)", c.Weight)
	demand(c.SessionTTL >= registry.MinSessionTTL && c.SessionTTL <= registry.MaxSessionTTL,
		"session TTL %s; expected %s to %s", c.SessionTTL, registry.MinSessionTTL, registry.MaxSessionTTL)
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"RestartWindow", c.RestartWindow}, {"DrainTimeout", c.DrainTimeout}, {"CancelGrace", c.CancelGrace},
		{"CommitInterval", c.CommitInterval}, {"ProgressTimeout", c.ProgressTimeout},
	} {
		demand(d.value >= 0 && d.value <= LongestTime, "%s is %s; expected at most %s, which is a year, and no negative time", d.name, d.value, LongestTime)
	}
	return errors.Join(errs...)
}
