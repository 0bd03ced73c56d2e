package topic

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// A log knows an idempotent producer by its numbers in the partitions of one storage topic. So a
// producer belongs to one, its home, and says so with each message: it is sent only there, also after
// a switch of the topic, by any process. The home stores it once, or acknowledges it again, or refuses
// it as sealed: then it surely is nowhere, and its producer goes on with a new ID in the storage topic
// that takes new records by then. No state moves from one storage topic to the next, so none has to be
// remembered.

// ProduceOptions are the options of Produce and ProduceAsync; nil is none.
type ProduceOptions struct {
	// Producer makes a message idempotent, when its ID is not 0. Its sequences count in the partitions
	// of Home.
	Producer commitlog.Producer
	// Home is the storage topic in which the producer began, see Topic.Home.
	Home int
}

// identify takes over the options.
func (m *message) identify(opts *ProduceOptions) {
	if opts != nil && opts.Producer.ID != 0 {
		m.home, m.opts = opts.Home, &commitlog.AppendOptions{Producer: opts.Producer}
	}
}

// idempotent reports whether the message has an identity.
func (m *message) idempotent() bool { return m.opts != nil }

// Home returns the index of the storage topic that takes new records, read anew: the home of a producer
// that begins now. It finishes an interrupted switch. ErrConflict when the topic was moved.
func (t *Topic) Home(ctx context.Context) (int, error) {
	if err := t.Refresh(ctx); err != nil {
		return 0, err
	}
	doc := t.Document()
	if err := doc.CheckHere(); err != nil || !t.view.Load().overtaken(ctx) {
		return doc.Produce, err
	}
	err := t.catalog.past(ctx, t.name, doc.Life, doc.Produce)
	if errors.Is(err, errNoNext) { // its producer gets that error
		err = nil
	}
	if err == nil {
		err = t.Refresh(ctx)
	}
	return t.Document().Produce, err
}

// early reports whether a message's storage topic is just taking over: it must wait for what is
// being carried there.
func (m *message) early(g *generation) bool {
	return m.idempotent() && m.home > g.storage && m.home <= m.t.Document().Produce && m.t.carryOn(g)
}

// number sends a message of an idempotent producer to its home.
func (m *message) number(ctx context.Context) {
	v := m.t.view.Load()
	at, err := m.atHome(v.doc)
	if err != nil {
		m.end(Position{}, err)
		return
	}
	m.storage, m.at = m.home, at
	v.storage[m.home].AppendAsync(ctx, at, m.recs, m.opts, m.stored)
}

// atHome returns the partition of a message, the same whenever it is sent.
func (m *message) atHome(doc *Document) (int, error) {
	switch {
	case m.home < 0 || m.home >= len(doc.Storage):
		return 0, fmt.Errorf("topic %q has storage topics 0 to %d; %d, where producer %x is said to have begun, is out of range: %w",
			m.t.name, len(doc.Storage)-1, m.home, m.opts.Producer.ID, fault.Invalid)
	case m.home > m.g.storage:
		return 0, fmt.Errorf("topic %q: storage topic %d, where producer %x is said to have begun, takes no records yet: %w", m.t.name, m.home, m.opts.Producer.ID, fault.NotDone)
	case doc.Storage[m.home].Retired:
		return 0, m.forgotten()
	}
	switch s := doc.Storage[m.home]; {
	case m.partition == AnyPartition && m.key == nil:
		return 0, fmt.Errorf("topic %q: a message of producer %x has neither key nor partition: sent again it would go elsewhere: %w", m.t.name, m.opts.Producer.ID, fault.Invalid)
	case m.partition == AnyPartition:
		return doc.Router.Route(doc.Hash.Sum(m.key), s.Partitions, s.K), nil
	case m.partition < 0 || m.partition >= s.Partitions:
		return 0, fmt.Errorf("topic %q has partitions 0 to %d in storage topic %d; %d is out of range: %w", m.t.name, s.Partitions-1, m.home, m.partition, fault.Invalid)
	}
	return m.partition, nil
}

// settle handles the answer of the home. Behind a message that it refused as sealed it finds a gap,
// which is no mistake of the producer.
func (m *message) settle(first int64, err error) {
	past := m.storage < m.g.storage || m.g.closed.Load()
	switch {
	case err == nil:
		m.end(Position{m.t.name, m.storage, m.at, first}, nil)
	case errors.Is(err, fault.Sealed), past && errors.Is(err, fault.Invalid):
		if m.storage == m.g.storage {
			m.t.carryOn(m.g) // false: the topic is being closed
		}
		m.end(Position{}, fmt.Errorf("topic %q: storage topic %d, where producer %x began, is %w and does not have the message: send it with a new ID and sequence 0 to the storage topic that takes new records",
			m.t.name, m.storage, m.opts.Producer.ID, fault.Sealed))
	case errors.Is(err, fault.NotFound), errors.Is(err, fault.Closed):
		if !m.t.aside(func() { m.homeless(err) }) {
			m.end(Position{}, err)
		}
	default:
		m.end(Position{}, err)
	}
}

// forgotten is the answer when the home is gone.
func (m *message) forgotten() error {
	return fmt.Errorf("topic %q: storage topic %d, where producer %x began, was retired; nothing was stored now, and it is not known whether it was before: %w",
		m.t.name, m.home, m.opts.Producer.ID, fault.Forgotten)
}

// homeless finds out why the home is not there.
func (m *message) homeless(err error) {
	if look := m.t.Refresh(m.t.life); look != nil {
		err = errors.Join(err, look)
	} else if m.t.Document().Storage[m.home].Retired {
		err = m.forgotten()
	}
	m.end(Position{}, err)
}
