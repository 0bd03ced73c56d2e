package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// From says where a group starts in a partition without a checkpoint.
type From string

// Where to start.
const (
	Earliest From = "earliest" // the oldest record that is kept
	Latest   From = "latest"   // records produced from now on
)

// Handlers makes the handler of a unit, each time the unit comes.
type Handlers func(topicName string, g *protocol.Group, u *group.Unit) dispatch.Handler

// Member is a member of a group as a caller of Consume describes it.
type Member struct {
	Topic    string
	Group    group.Config    // its name, and what users may choose; Consume sets the rest
	Assignor string          // by its name; "": the default
	Engine   dispatch.Config // as Config has it
	From     From            // default Earliest
	Handlers Handlers
	Layout   Layout
	Around   Around // nil: nothing is
	// Seen is called with the topic's definition, at first and at each change; nil: not called.
	Seen func(*topic.Document)

	Failed func(dispatch.Failure) // gets each failed attempt; nil: nothing does. With Around, that tells failures

	Transactional bool // as Config has it
}

// Consume is a member of a group until ctx ends: then it drains, hands its units over and returns nil. It blocks, and
// joins all that it started. Errors: fault.Invalid with every fault of m, fault.NotFound for an unknown topic, those of
// group.Run, and topic.ErrAnotherLife and fault.Conflict for a topic that was deleted or moved to another log.
func (c *Groups) Consume(ctx context.Context, m Member) error {
	if h := m.Handlers; h != nil && m.Around == nil {
		teller := dispatch.NewTeller(c.Logger.With("group", m.Group.Group), m.Failed)
		defer teller.Close()
		m.Handlers = func(topicName string, g *protocol.Group, u *group.Unit) dispatch.Handler {
			return teller.Watch(topicName, h(topicName, g, u))
		}
	}
	cfg, err := c.configure(ctx, &m)
	if err != nil {
		return UnlessEnded(ctx, err)
	}
	return run(ctx, cfg)
}

// configure is a separate call to free its stack space for the life of the member.
func (c *Groups) configure(ctx context.Context, m *Member) (*Config, error) {
	if m.Handlers == nil {
		return nil, fmt.Errorf("consume topic %q: no handler: %w", m.Topic, fault.Invalid)
	}
	// The handle may be older than a switch. If the registry does not answer, a later step waits for it.
	t, err := c.Topics.Current(ctx, m.Topic)
	if err != nil && (t == nil || errors.Is(err, fault.NotFound) || errors.Is(err, fault.Conflict)) {
		return nil, err
	}
	doc := t.Document()
	if err := doc.CheckHere(); err != nil {
		return nil, err
	}
	cfg := m.Group
	cfg.Registry, cfg.Sessions, cfg.WorkersCommit, cfg.Logger = c.Registry, c.Sessions, m.Transactional, c.Logger
	m.Layout.LayOut(&cfg, doc)
	if cfg.Member == "" {
		cfg.Member = group.NewMember()
	}
	var unknown error
	if m.Assignor != "" {
		cfg.Assignor, unknown = assign.ByName(m.Assignor)
	}
	if err := errors.Join(m.validate(), unknown, cfg.Validate()); err != nil {
		return nil, err
	}
	if m.Transactional && !c.Registry.Transactional() {
		return nil, fmt.Errorf("consume topic %q: Transactional needs a registry in PostgreSQL, MariaDB or SQLite: %w", m.Topic, fault.Invalid)
	}
	g, err := protocol.NewGroup(c.Registry, cfg.Group)
	if err != nil {
		return nil, err
	}
	return &Config{
		Group: cfg, Topic: t, Catalog: c.Topics.Catalog(), Log: c.Log, Engine: m.Engine,
		Handler: func(u *group.Unit) dispatch.Handler { return m.Handlers(m.Topic, g, u) },
		Latest:  m.From == Latest, Transactional: m.Transactional, Logger: c.Logger, Layout: m.Layout, Around: m.Around, Seen: m.Seen,
	}, nil
}

// UnlessEnded returns the error of a member that was about to begin: nil when it only says that ctx has
// ended.
func UnlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

// validate reports every fault that the group does not check itself.
func (m *Member) validate() error {
	var err error
	if m.From != "" && m.From != Earliest && m.From != Latest {
		err = fmt.Errorf("consume: from %q; expected %q or %q: %w", m.From, Earliest, Latest, fault.Invalid)
	}
	return errors.Join(err, m.Engine.Check("consume"))
}
