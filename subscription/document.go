package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/subscription/core"
	"github.com/ringfence/ringfence/subscription/filter"
	"github.com/ringfence/ringfence/subscription/shard"
	"github.com/ringfence/ringfence/topic"
)

const (
	prefix         = "subscriptions/"
	documentFormat = 1
	setIDBytes     = 8
)

// Order says what is delivered in order.
type Order string

// The orders.
const (
	ByKey      Order = "key"      // the records of a key
	ByFunction Order = "function" // records with keys for which the members' function returns the same
	None       Order = "none"     // nothing
)

// DeadLetters is what becomes of a record that is given up.
type DeadLetters = core.DeadLetters

// The policies.
const (
	Block = core.Block
	Skip  = core.Skip
	Drop  = core.Drop
)

// Retry says when a failing record is tried again, and when it is given up.
type Retry struct {
	InitialMS   int64 `json:"initial_ms"` // pause after the first failure
	MaxMS       int64 `json:"max_ms"`     // the longest pause
	HoldMS      int64 `json:"hold_ms"`    // how long it is held before it is parked; -1: not at all
	MaxAttempts int   `json:"max_attempts"`
	AfterMaxMS  int64 `json:"after_max_ms,omitempty"` // the longest pause that an answer may ask for; 0: the default
}

// NewRetry returns a policy from durations: 0 is the default, a negative hold is none.
func NewRetry(initial, longest, hold, afterMax time.Duration, attempts int) Retry {
	return Retry{InitialMS: millis(initial), MaxMS: millis(longest), HoldMS: millis(hold), MaxAttempts: attempts, AfterMaxMS: millis(afterMax)}
}

// millis converts d to milliseconds; the result is 0 only when d is.
func millis(d time.Duration) int64 {
	switch {
	case d < 0:
		return -1
	case d > 0:
		return max(1, d.Milliseconds())
	}
	return 0
}

// The bounds of a policy keep all that is computed from it far from the limits of its number types.
const (
	LongestPause = shard.LongestPause // or hold
	MaxAttempts  = 1 << 20

	notHeld = -1 // Retry.HoldMS: a record that fails is parked at once
)

// Document is the definition of a subscription.
type Document struct {
	Format      int         `json:"format"`
	Name        string      `json:"name"`
	State       string      `json:"state"` // creating, ready, deleting
	Topic       string      `json:"topic"`
	Order       Order       `json:"order"`
	From        string      `json:"from"` // where it begins: earliest or latest
	Retry       Retry       `json:"retry"`
	DeadLetters DeadLetters `json:"dead_letters"`
	Endpoint    *Endpoint   `json:"endpoint,omitempty"` // nil: a handler or a command delivers
	Filter      string      `json:"filter,omitempty"`   // an expression of package filter: a record that it is false of is finished undelivered
	Limits      *Limits     `json:"limits,omitempty"`   // nil: none
	Sets        []Set       `json:"sets"`
	Created     int64       `json:"created"` // Unix ms
	Paused      *Pause      `json:"paused,omitempty"`
	ResumedAt   int64       `json:"resumed_at,omitempty"` // Unix ms: when a pause ended last; 0: none has
	TakenAt     int64       `json:"taken_at,omitempty"`   // Unix ms: when the endpoint took a record for the first time; 0: it has not
	// Damaged says why a listed definition can't be used: it has only a name then. "": it can be used.
	Damaged string `json:"-"`

	newer bool // a newer version wrote the damaged one: it is sound, and deleting it is no remedy
}

// longestName bounds a subscription's name, which is part of the names of its groups and topics.
const longestName = 64

const (
	creating = "creating"
	ready    = "ready"
	deleting = "deleting"
)

// Group returns the name of the set's consumer group.
func (d *Document) Group() string { return d.Name + groupMark + d.Set().ID }

// groupMark is in the names of subscriptions' groups, and in no others.
const groupMark = ".."

// OfGroup returns the subscription and the set of the group with that name; names of users' groups don't
// look like it.
func OfGroup(group string) (name, set string, ok bool) {
	at := strings.LastIndex(group, groupMark)
	if at < 0 {
		return "", "", false
	}
	return group[:at], group[at+len(groupMark):], true
}

// ms is the inverse of millis.
func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// policy returns the retry policy as durations.
func (r Retry) policy() dispatch.Retry {
	return dispatch.Retry{
		Initial: ms(r.InitialMS), Max: ms(r.MaxMS), HoldFor: ms(r.HoldMS), MaxAttempts: r.MaxAttempts,
		MaxAsked: ms(cmp.Or(r.AfterMaxMS, max(r.MaxMS, time.Hour.Milliseconds()))),
	}
}

func (d *Document) withDefaults() {
	d.Order = cmp.Or(d.Order, ByKey)
	d.From = cmp.Or(d.From, "earliest")
	d.DeadLetters = cmp.Or(d.DeadLetters, Block)
	d.Retry.InitialMS = cmp.Or(d.Retry.InitialMS, 1000)
	d.Retry.MaxMS = cmp.Or(d.Retry.MaxMS, max(60_000, d.Retry.InitialMS))
	d.Retry.HoldMS = cmp.Or(d.Retry.HoldMS, 5000)
	d.Retry.MaxAttempts = cmp.Or(d.Retry.MaxAttempts, 10)
}

// Validate reports every fault of a definition, as Ensure would.
func (d Document) Validate() error {
	d.withDefaults()
	return errors.Join(d.validate(), d.Limits.CheckShards(d.Name, d.Set().Shards))
}

// validate reports every fault of a complete definition.
func (d *Document) validate() error {
	name := checkID(d.Name)
	if len(d.Name) > longestName || strings.Contains(d.Name, groupMark) {
		name = badName(d.Name)
	}
	errs := []error{name, topic.CheckName(d.Topic), d.Endpoint.validate(), d.Limits.validate(d.Name)}
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("subscription %q: %s: %w", d.Name, fmt.Sprintf(format, args...), fault.Invalid))
		}
	}
	demand(d.Order == ByKey || d.Order == None || d.Order == ByFunction, "order %q; expected %q, %q or %q", d.Order, ByKey, None, ByFunction)
	demand(d.Order != ByFunction || d.Endpoint == nil, "an order by a function and an endpoint; expected a handler in Go, which has the function")
	demand(d.From == "earliest" || d.From == "latest", "from %q; expected \"earliest\" or \"latest\"", d.From)
	demand(d.DeadLetters == Block || d.DeadLetters == Skip || d.DeadLetters == Drop, "dead letters %q; expected %q, %q or %q", d.DeadLetters, Block, Skip, Drop)
	demand(d.Retry.InitialMS > 0 && d.Retry.MaxMS >= d.Retry.InitialMS, "retries after %s to %s; expected a pause, and a longest one that is not shorter", ms(d.Retry.InitialMS), ms(d.Retry.MaxMS))
	longest := max(d.Retry.MaxMS, d.Retry.HoldMS, d.Retry.AfterMaxMS)
	demand(longest <= LongestPause.Milliseconds(), "a pause or a hold of %d ms; expected at most %d, which is a year", longest, LongestPause.Milliseconds())
	demand(d.Retry.AfterMaxMS >= 0, "a pause of %d ms as the longest that an answer may ask for; expected a time", d.Retry.AfterMaxMS)
	demand(d.Retry.HoldMS >= notHeld, "a hold of %d ms; expected a time, or %d for none", d.Retry.HoldMS, notHeld)
	demand(d.Set().Shards >= 0 && d.Set().Shards <= commitlog.MaxPartitions, "%d shards; expected 1 to %d, or 0 for one for each partition", d.Set().Shards, commitlog.MaxPartitions)
	demand(d.Retry.MaxAttempts > 0 && d.Retry.MaxAttempts <= MaxAttempts, "%d attempts; expected 1 to %d", d.Retry.MaxAttempts, MaxAttempts)
	if _, err := d.Matcher(); err != nil {
		errs = append(errs, fmt.Errorf("subscription %q: %w", d.Name, err))
	}
	return errors.Join(errs...)
}

// checkID reports whether anything may be stored under a name. It may be longer than a subscription's: a
// damaged entry is deleted by it.
func checkID(name string) error {
	if registry.CheckID("subscription", name) != nil {
		return badName(name)
	}
	return nil
}

func badName(name string) error {
	return fmt.Errorf("subscription %.20q (%d bytes): expected 1 to %d letters, digits, '_', '-' or single '.', the first a letter or digit: %w", name, len(name), longestName, fault.Invalid)
}

// Matcher returns the filter of a definition; nil: everything is delivered.
func (d *Document) Matcher() (*filter.Filter, error) {
	if d.Filter == "" {
		return nil, nil
	}
	return filter.Compile(d.Filter)
}

// Catalog keeps the subscriptions of a registry. It has no state of its own.
type Catalog struct {
	reg    *registry.Registry
	topics *topic.Catalog
	gone   func(topic string)            // called with each internal topic that was removed
	kept   func(topic string, why error) // called with a topic that goes by the name of one, and stays
	found  func(*Document)               // called with a definition that the log told
}

// NewCatalog returns the catalog in reg of subscriptions to topics.
func NewCatalog(reg *registry.Registry, topics *topic.Catalog) *Catalog {
	return &Catalog{reg, topics, func(string) {}, func(string, error) {}, func(*Document) {}}
}

// Ensure makes a subscription unless it exists, and returns it as it is stored: an existing one keeps
// its policy. ErrExists when it has another topic or order, which never change; ErrDeleting when it has
// yet to be deleted. A creation that a crash interrupted is finished.
func (c *Catalog) Ensure(ctx context.Context, want Document) (*Document, error) {
	want.withDefaults()
	if err := want.validate(); err != nil {
		return nil, err
	}
	for found := false; ; {
		var under []registry.Check
		have, version, err := c.load(ctx, want.Name)
		switch {
		case errors.Is(err, fault.NotFound):
			main, defined, err := c.defined(ctx, want.Topic)
			if err != nil {
				return nil, err
			}
			d := want
			d.Format, d.State, d.Created = documentFormat, creating, time.Now().UnixMilli()
			if found, err = c.forgotten(ctx, &d); err == nil && !found {
				err = d.begin(main)
			}
			if err != nil {
				return nil, err
			}
			have, version, under = &d, "", []registry.Check{defined} // or a deletion of the topic may not see it
		case err != nil:
			return nil, err
		case have.State == deleting:
			return nil, fmt.Errorf("subscription %q: %w", want.Name, ErrDeleting)
		case have.Topic != want.Topic || have.Order != want.Order:
			return nil, fmt.Errorf("subscription %q delivers topic %q ordered by %s, which can't be changed, as what is parked goes by it; asked for was %q by %s; use another name: %w",
				want.Name, have.Topic, have.Order, want.Topic, want.Order, fault.Exists)
		case have.State == ready:
			return have, c.CheckTopic(ctx, have)
		}
		if err = c.advance(ctx, have, version, under...); errors.Is(err, errRaced) && version != "" && !found {
			err = c.abandon(ctx, have)
		}
		if err != nil && !errors.Is(err, errRaced) {
			return nil, err
		}
	}
}

// begin gives a new definition its first set.
func (d *Document) begin(main *topic.Document) error {
	storage := main.Left()
	if d.From == "latest" {
		storage = main.Produce
	}
	partitions := main.Storage[storage].Partitions
	first := newSet(0, cmp.Or(d.Set().Shards, partitions), active)
	first.Storage = storage
	d.Sets = []Set{first}
	return errors.Join(CheckShards(first.Shards, partitions), d.Limits.CheckShards(d.Name, first.Shards))
}

// advance takes the next step of a creation.
func (c *Catalog) advance(ctx context.Context, d *Document, version registry.Version, under ...registry.Check) error {
	if version != "" {
		if err := c.CheckTopic(ctx, d); err != nil {
			return err
		}
		if err := c.takeUp(ctx, d); err != nil {
			return err
		}
		d.State = ready
	}
	return c.store(ctx, d, version, under...)
}

// Get reads a definition; ErrNotFound when there is none that is ready.
func (c *Catalog) Get(ctx context.Context, name string) (*Document, error) {
	d, _, err := c.load(ctx, name)
	if err == nil && d.State != ready {
		err = d.notReady()
	}
	return d, err
}

func (d *Document) notReady() error {
	return fmt.Errorf("subscription %q is being made or deleted (%s): %w", d.Name, d.State, fault.NotFound)
}

// List returns the ready definitions and the unusable ones (Damaged), sorted by name.
func (c *Catalog) List(ctx context.Context) ([]*Document, error) {
	all, err := c.Begun(ctx)
	return slices.DeleteFunc(all, func(d *Document) bool { return d.State == creating }), err
}

// Begun is List, with the half-made ones.
func (c *Catalog) Begun(ctx context.Context) ([]*Document, error) {
	snap, err := c.reg.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var all []*Document
	for _, e := range snap.Entries {
		switch d, err := decodeDocument(e); {
		case err != nil:
			all = append(all, &Document{Name: strings.TrimPrefix(e.Key, prefix), Damaged: err.Error(), newer: errors.Is(err, ErrNewer)})
		case d.State != deleting:
			all = append(all, d)
		}
	}
	return all, nil
}

// Watch signals that a definition of a registry may have changed, as registry.Registry.Watch does.
func Watch(ctx context.Context, reg *registry.Registry) (<-chan struct{}, error) {
	return reg.Watch(ctx, prefix)
}

func (c *Catalog) load(ctx context.Context, name string) (*Document, registry.Version, error) {
	if err := checkID(name); err != nil {
		return nil, "", err
	}
	e, err := c.reg.Get(ctx, prefix+name)
	if errors.Is(err, fault.NotFound) {
		return nil, "", fmt.Errorf("subscription %q: %w", name, fault.NotFound)
	}
	if err != nil {
		return nil, "", err
	}
	d, err := decodeDocument(e)
	return d, e.Version, err
}
