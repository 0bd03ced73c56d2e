package ring

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// Errors that callers branch on.
var (
	ErrInvalid     = fault.Invalid
	ErrNotFound    = fault.NotFound
	ErrExists      = fault.Exists   // a ring of that name has another mode or number of slots
	ErrConflict    = fault.Conflict // a ring that has members can't be deleted
	ErrFenced      = fault.Fenced   // the member was started again elsewhere
	ErrClosed      = fault.Closed
	ErrUnavailable = fault.Unavailable
)

// Mode says how keys find their member; it is fixed for the life of a ring.
type Mode string

// Modes.
const (
	Anchor Mode = "anchor" // consistent hashing; a short overlap when members change
	Table  Mode = "table"  // fenced slots, each of one owner at a time
)

// Config is a member of a ring. Registry, Name and Member are needed.
type Config struct {
	Registry *registry.Registry
	Name     string // of the ring

	// Member is the ID in the ring. When it is started again while it runs, the newest start wins
	// and the others end with ErrFenced.
	Member      string
	Incarnation string // of this start, unique for ever; default random

	Mode  Mode // default: that of the ring, Anchor when it is new
	Slots int  // of a ring in Table mode; default: that of the ring, 256 when it is new

	TTL time.Duration // a silent member is dead after that; default Registry.SessionTTL: 5 s, on etcd 2 s

	// Drain is, in Anchor mode, how long a leaving member still answers yes for its keys while its
	// heirs do already. In Table mode it is the time from the last yes for a moving slot to the
	// first yes elsewhere, for running work to finish. Default 100 ms; negative: none.
	Drain time.Duration

	Logger *slog.Logger // default: discard
	Events Events
}

// Events report what happens. Each may be nil. They are called one at a time and must not block.
type Events struct {
	// Changed is called when this member sees another picture of the ring than before. The first
	// old one has no members.
	Changed func(old, now *View)
}

const (
	defaultDrain = 100 * time.Millisecond
	defaultSlots = 256
	maxSlots     = 1 << 14
)

func (c Config) withDefaults() Config {
	c.TTL = cmp.Or(c.TTL, c.Registry.SessionTTL())
	c.Drain = max(cmp.Or(c.Drain, defaultDrain), 0)
	c.Incarnation = cmp.Or(c.Incarnation, rand.Text()[:12])
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Validate reports every fault of c at once; nil when there is none.
func (c Config) Validate() error {
	var errs []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("ring %q: %s: %w", c.Name, fmt.Sprintf(format, args...), ErrInvalid))
		}
	}
	demand(c.Registry != nil, "no Registry")
	errs = append(errs, registry.CheckID("ring", c.Name), registry.CheckID("member", c.Member))
	demand(c.Mode == "" || c.Mode == Anchor || c.Mode == Table, "mode %q; expected %q or %q", c.Mode, Anchor, Table)
	demand(c.Slots >= 0 && c.Slots <= maxSlots, "%d slots; expected 1 to %d (0: default)", c.Slots, maxSlots)
	demand(c.Slots == 0 || c.Mode != Anchor, "%d slots in mode %q; only %q has slots", c.Slots, Anchor, Table)
	demand(c.TTL == 0 || c.TTL >= registry.MinSessionTTL && c.TTL <= registry.MaxSessionTTL, "TTL %s; expected %s to %s", c.TTL, registry.MinSessionTTL, registry.MaxSessionTTL)
	demand(c.Drain <= group.LongestTime, "Drain %s; expected at most %s, which is a year", c.Drain, group.LongestTime)
	return errors.Join(errs...)
}
