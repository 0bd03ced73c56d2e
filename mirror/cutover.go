package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/topic"
)

// A cut-over may fail anywhere, and is then called again. Two rules make that safe. All that the target is
// going to get is written down as one plan before any of it is used: the definition, the groups, and each
// group's translated checkpoints. To translate them again later would be wrong, as by then the target may
// have records and progress of its own; so who finds a plan carries it out and computes nothing. And each
// step of carrying it out can be taken twice, and by two: the definition is adopted once, and a checkpoint is
// given to its unit in the transaction that notes that it was.
//
// The step before the plan that stops somebody is the seal of the source. So what refuses a cut-over is
// looked for before it, and the source is marked before it too: what is sealed and has no mark might be
// opened again.
//
// With two registries the move itself is an act in the log of the source, between the plan and all that is done by
// it: the storage topic that would come next is made with a card that says where the topic went. By then
// the copy is sealed, equal to the source, and holds what each group needs. So where the notes of the target are
// lost, the logs have all to go on by: see restore.

// plan is how far a cut-over got. When it is there, all that the target gets is written down, and
// nothing is computed anew: a second translation of progress would spoil it.
type plan struct {
	Format   int                `json:"format"`
	Document *topic.Document    `json:"document"` // of the target
	Groups   []protocol.Meta    `json:"groups"`
	Controls []protocol.Control `json:"controls"` // of the groups: what is paused stays so
	Names    []string           `json:"names"`    // of the groups
	// Source are the names of the storage topics at the source, which are released when it is done.
	Source []string `json:"source,omitempty"`
	Done   bool     `json:"done"`
}

// Result is what a cut-over carried over.
type Result struct {
	Groups []string
	// Already says that the cut-over was done before; nothing was changed.
	Already bool
	// Restored says that it was done before, and that the registry of the target had forgotten it.
	Restored bool
}

func (m *Mirror) planKey() string { return m.prefix() + "cutover" }

func (m *Mirror) carriedKey(group string, unit int) string {
	return fmt.Sprintf("%scarried/%s/%08d", m.prefix(), group, unit)
}

// checkOpen refuses to copy behind a cut-over: the target has producers of its own by then.
func (m *Mirror) checkOpen(ctx context.Context) error {
	p, _, err := m.readPlan(ctx)
	moved := p != nil
	if err == nil && !moved {
		moved, err = m.moved(ctx)
	}
	if err == nil && moved {
		err = fmt.Errorf("topic %q was cut over to the target; finish with the cut-over, there is nothing to mirror: %w", m.c.Topic, fault.Conflict)
	}
	return err
}

// CutOver moves the topic for good: it seals the source, copies what is left, makes the topic
// known at the target, and carries the progress of every consumer group over, so that consumers
// which are started at the target go on with the first record that is not finished. It can be
// repeated after a failure and goes on where it stopped.
//
// Producers at the source are refused with ErrSealed from its beginning. Consumers must have been
// stopped: ErrConflict names those that have not.
func (m *Mirror) CutOver(ctx context.Context) (Result, error) {
	if err := m.begin(ctx); err != nil {
		return Result{}, err
	}
	p, version, err := m.readPlan(ctx)
	if err != nil {
		return Result{}, err
	}
	if p == nil {
		moved, err := m.moved(ctx)
		if err == nil && moved {
			return m.restore(ctx)
		}
		if err == nil {
			p, version, err = m.prepare(ctx)
		}
		if err != nil {
			return Result{}, err
		}
	}
	if p.Done {
		return Result{Groups: p.Names, Already: true}, nil
	}
	if err := m.leaveSource(ctx, p); err != nil {
		return Result{}, err
	}
	if err := m.apply(ctx, p); err != nil {
		return Result{}, err
	}
	// What stays held is in the way of nothing but the source's retention.
	m.problems.note("retention of the source", release(ctx, m.c.From.Log, p.Source, m.c.To.Name))
	p.Done = true
	return Result{Groups: p.Names}, m.writePlan(ctx, p, version)
}

// leaveSource is the act by which the topic moves. In one registry the definition becomes the target's instead. A
// source that was deleted since needs none.
func (m *Mirror) leaveSource(ctx context.Context, p *plan) error {
	if m.c.SameRegistry || m.lives.Source == "" {
		return nil
	}
	if err := m.handHoldsOver(ctx, p, m.planned); err != nil { // from now on they may be all that tells
		return err
	}
	err := m.source.EndHere(ctx, m.c.Topic, m.lives.Source, len(p.Source), m.c.To.Name)
	switch {
	case errors.Is(err, fault.NotFound):
		return nil
	case errors.Is(err, fault.Conflict): // it has grown, and what is planned is not all of it
		return errors.Join(err, m.forget(ctx))
	}
	return err
}

// prepare does all that leaves the target's definition and groups as they were, and writes the plan.
func (m *Mirror) prepare(ctx context.Context) (*plan, registry.Version, error) {
	if err := m.noSubscription(ctx); err != nil {
		return nil, "", err
	}
	if _, err := m.groups(ctx); err != nil { // early, before anything is sealed
		return nil, "", err
	}
	if err := m.checkDefined(ctx); err != nil {
		return nil, "", err
	}
	doc, err := m.sourceNow(ctx)
	if err == nil { // what is there already, and that the target has nothing else, while nothing is ended
		err = m.copy(ctx, doc, true)
	}
	if err != nil {
		return nil, "", err
	}
	// Before the seal: what is sealed and has no mark is opened again by the next who finds it so.
	if err := m.source.Mark(ctx, m.c.Topic, m.lives.Source, &topic.Moved{To: m.c.To.Name}); err != nil {
		return nil, "", err
	}
	if doc, err = m.endSource(ctx); err != nil {
		return nil, "", err
	}
	if err := m.copy(ctx, doc, true); err != nil {
		return nil, "", err
	}
	groups, err := m.groups(ctx) // again: the copy may have taken long
	if err != nil {
		return nil, "", err
	}
	p := &plan{Format: stateFormat}
	if p.Document, err = m.targetDocument(ctx, doc); err != nil {
		return nil, "", err
	}
	if err := m.checkSame(ctx, doc); err != nil {
		return nil, "", fmt.Errorf("mirror of topic %q: %w (cut over again)", m.c.Topic, err)
	}
	for _, s := range doc.Storage {
		p.Source = append(p.Source, s.Name)
	}
	tr, err := m.openTranslators(ctx, doc)
	if err != nil {
		return nil, "", err
	}
	defer tr.close()
	if err := tr.settle(ctx); err != nil {
		return nil, "", err
	}
	for _, g := range groups {
		st, err := m.carry(ctx, g, tr)
		if err != nil {
			return nil, "", fmt.Errorf("the progress of group %q: %w", g.Name(), err)
		}
		p.Groups, p.Controls, p.Names = append(p.Groups, *st.Meta), append(p.Controls, st.Control), append(p.Names, g.Name())
	}
	if err := m.writePlan(ctx, p, ""); err != nil {
		return nil, "", err
	}
	return m.readPlan(ctx)
}

// noSubscription is ErrConflict while a subscription delivers the topic: what it has parked is named by
// places of the source.
func (m *Mirror) noSubscription(ctx context.Context) error {
	all, err := subscription.NewCatalog(m.c.From.Registry, m.source).List(ctx)
	if err != nil {
		return err
	}
	for _, d := range all {
		switch {
		case d.Damaged != "":
			return fmt.Errorf("topic %q may be delivered by subscription %q, which can't be read (%s): %w", m.c.Topic, d.Name, d.Damaged, fault.Conflict)
		case d.Topic == m.c.Topic:
			return fmt.Errorf("topic %q is delivered by subscription %q, and what that has parked can't be carried over; when nothing is left to deliver, \"ringfence subscription delete %s\" (DeleteSubscription in Go), and make it at the target after the cut-over, from the latest record on (--from latest): %w", m.c.Topic, d.Name, d.Name, fault.Conflict)
		}
	}
	return nil
}

// groups are those that consume the topic. None may have members: what they finish while their
// progress is translated would be done twice.
func (m *Mirror) groups(ctx context.Context) ([]*protocol.Group, error) {
	names, err := protocol.ListGroups(ctx, m.c.From.Registry)
	if err != nil {
		return nil, err
	}
	var groups []*protocol.Group
	for _, name := range names {
		g, err := protocol.NewGroup(m.c.From.Registry, name)
		if err != nil {
			return nil, err
		}
		meta, err := g.Meta(ctx)
		if errors.Is(err, fault.NotFound) || err == nil && meta.Topic != m.c.Topic {
			continue
		}
		if err != nil {
			return nil, err
		}
		if meta.Layout != "" { // which of its units are of what is left nobody knows here
			return nil, fmt.Errorf("group %q has the layout %q, and can't be carried over: %w", name, meta.Layout, fault.Invalid)
		}
		members, err := g.ActiveMembers(ctx)
		if err == nil {
			err = checkStopped(g, members)
		}
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func checkStopped(g *protocol.Group, members []protocol.Member) error {
	if len(members) == 0 {
		return nil
	}
	return fmt.Errorf("group %q has %d members, %q among them: stop them and cut over again, they go on at the target after that: %w", g.Name(), len(members), members[0].ID, fault.Conflict)
}

// endSource seals all storage topics and returns the definition as it is then. The last one goes
// first: producers that a sealed one refuses go on with the next, and must not find it open.
func (m *Mirror) endSource(ctx context.Context) (*topic.Document, error) {
	for sealed := 0; ; {
		doc, err := m.sourceNow(ctx)
		if err != nil || len(doc.Storage) == sealed {
			return doc, err
		}
		for i := len(doc.Storage) - 1; i >= doc.Left(); i-- {
			if err := m.sealSource(ctx, doc, i); err != nil {
				return nil, err
			}
		}
		sealed = len(doc.Storage)
	}
}

func (m *Mirror) sealSource(ctx context.Context, doc *topic.Document, storage int) error {
	t, err := m.c.From.Log.Topic(ctx, doc.Storage[storage].Name)
	if err != nil {
		return err
	}
	_, err = t.Seal(ctx)
	return errors.Join(err, t.Close())
}

// targetDocument is the definition with the names and ends of the target, whose copies it seals. New records go to
// a storage topic of their own behind them, which is still to be made: the copies stay comparable for ever, and an
// append of a mirror that comes late finds them sealed. In one registry they go to the last copy.
func (m *Mirror) targetDocument(ctx context.Context, doc *topic.Document) (*topic.Document, error) {
	d := *doc
	d.Storage = append([]topic.Storage(nil), doc.Storage...)
	d.Moved = nil
	d.Life, d.Produce = m.lives.Target, len(doc.Storage)-1
	if !m.c.SameRegistry {
		last := doc.Storage[d.Produce]
		d.Storage = append(d.Storage, topic.Storage{Partitions: last.Partitions, K: last.K})
		d.Produce++
	}
	for i := range d.Storage {
		d.Storage[i].Name = m.targetName(&d, i)
		d.Storage[i].Ends = nil
		if d.Storage[i].Retired {
			d.Storage[i].Clearing = true // something may have been copied before
		}
		if d.Storage[i].Retired || i >= d.Produce {
			continue
		}
		t, err := m.c.To.Log.Topic(ctx, d.Storage[i].Name)
		if err != nil {
			return nil, err
		}
		t = t.First(d.Storage[i].Partitions)
		d.Storage[i].Ends, err = t.Seal(ctx)
		if err = errors.Join(err, t.Close()); err != nil {
			return nil, err
		}
	}
	return &d, nil
}

// translators of all partitions, made when they are needed.
type translators struct {
	m        *Mirror
	doc      *topic.Document // of the source
	from, to []*commitlog.Topic
	made     map[[2]int]*translator
}

func (m *Mirror) openTranslators(ctx context.Context, doc *topic.Document) (*translators, error) {
	tr := &translators{m: m, doc: doc, made: map[[2]int]*translator{}}
	for i := range doc.Storage {
		if doc.Storage[i].Retired {
			tr.from, tr.to = append(tr.from, nil), append(tr.to, nil)
			continue
		}
		from, to, err := m.openPair(ctx, doc, i)
		if err != nil {
			tr.close()
			return nil, err
		}
		tr.from, tr.to = append(tr.from, from), append(tr.to, to)
	}
	return tr, nil
}

func (tr *translators) close() {
	for i := tr.doc.Left(); i < len(tr.from); i++ {
		_ = tr.from[i].Close() // they only read
		_ = tr.to[i].Close()
	}
}

// settle makes last at the target what the groups have finished of it, as their progress is stored elsewhere.
func (tr *translators) settle(ctx context.Context) error {
	for i := tr.doc.Left(); i < len(tr.to); i++ {
		if err := tr.to[i].Settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (tr *translators) of(ctx context.Context, storage, partition int) (*translator, error) {
	at := [2]int{storage, partition}
	if t := tr.made[at]; t != nil {
		return t, nil
	}
	if storage >= len(tr.from) {
		return nil, fmt.Errorf("a position in storage topic %d, which the topic does not have: %w", storage, fault.Corrupt)
	}
	s, err := tr.m.readState(ctx, tr.m.stateKey(storage, partition))
	if err != nil {
		return nil, err
	}
	t, err := newTranslator(ctx, tr.from[storage], tr.to[storage], partition, &s.state)
	if err == nil {
		tr.made[at] = t
	}
	return t, err
}

// empty is the progress of a unit that no group needs a checkpoint of: nothing was ever in it and
// nothing comes. At the target it may end behind the mark of a seal, and then it needs one.
func (tr *translators) empty(unit int) []protocol.Position {
	storage, partition, ok := tr.doc.Partition(unit)
	if !ok || tr.doc.Storage[storage].Retired || tr.doc.End(storage, partition) != 0 {
		return nil
	}
	return []protocol.Position{{Storage: storage, Partition: partition}}
}

// carry writes down the translated checkpoints of a group, and returns what it carried.
func (m *Mirror) carry(ctx context.Context, g *protocol.Group, tr *translators) (*protocol.State, error) {
	st, err := g.Load(ctx, true)
	if err == nil && st.Meta == nil {
		err = fmt.Errorf("it was deleted in the meantime: %w", fault.Conflict)
	}
	if err == nil {
		err = checkStopped(g, st.Members)
	}
	if err != nil {
		return nil, err
	}
	for i := range st.Units {
		u := &st.Units[i]
		if u.Checkpoint == nil {
			u.Checkpoint = &protocol.Checkpoint{Positions: tr.empty(u.Number)}
		}
		if len(u.Checkpoint.Positions) == 0 || u.Number < tr.doc.Unit(tr.doc.Left(), 0) {
			continue
		}
		c := protocol.Checkpoint{Member: u.Checkpoint.Member}
		for _, p := range u.Checkpoint.Positions {
			t, err := tr.of(ctx, p.Storage, p.Partition)
			if err != nil {
				return nil, err
			}
			if p, err = t.position(ctx, p); err != nil {
				return nil, err
			}
			c.Positions = append(c.Positions, p)
		}
		key := m.carriedKey(g.Name(), u.Number)
		if _, err := m.c.To.Registry.Txn(ctx, registry.Txn{Puts: []registry.Put{{Key: key, Value: registry.Encode(carried{Checkpoint: c})}}, Quiet: true}); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// apply makes the target what the plan says. Each step may be repeated.
//
// In one registry the groups change under whoever consumes. After the definition was changed nobody
// can open the topic at the source any more; who had opened it before, and became a member since, is
// seen before the groups change or after it, and then all of it is repeated without them.
func (m *Mirror) apply(ctx context.Context, p *plan) error {
	if err := m.target.Adopt(ctx, p.Document); err != nil {
		return err
	}
	if err := m.applyGroups(ctx, p); err != nil {
		return err
	}
	if err := m.handHoldsOver(ctx, p, m.standing); err != nil {
		return err
	}
	if err := m.releaseTarget(ctx, p.Document); err != nil {
		return err
	}
	if err := m.alone(ctx); err != nil {
		return errors.Join(err, m.applyAgain(ctx, p))
	}
	return nil
}

// alone looks, in one registry, whether the groups have no members.
func (m *Mirror) alone(ctx context.Context) error {
	if !m.c.SameRegistry {
		return nil
	}
	_, err := m.groups(ctx)
	return err
}

func (m *Mirror) readPlan(ctx context.Context) (*plan, registry.Version, error) {
	e, err := m.c.To.Registry.Get(ctx, m.planKey())
	if errors.Is(err, fault.NotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	p, err := decodePlan(e.Key, e.Value)
	return p, e.Version, err
}

func decodePlan(key string, value []byte) (*plan, error) {
	p := new(plan)
	if err := json.Unmarshal(value, p); err != nil {
		return nil, fmt.Errorf("registry key %q: %w: %w", key, fault.Corrupt, err)
	}
	if p.Format != stateFormat {
		return nil, fmt.Errorf("registry key %q is of format %d; this version reads %d: %w", key, p.Format, stateFormat, fault.Invalid)
	}
	if p.Document == nil || len(p.Groups) != len(p.Names) || len(p.Controls) != len(p.Names) {
		return nil, fmt.Errorf("registry key %q: a plan with %d groups, %d names of groups and %d of their controls: %w",
			key, len(p.Groups), len(p.Names), len(p.Controls), fault.Corrupt)
	}
	return p, nil
}

func (m *Mirror) writePlan(ctx context.Context, p *plan, version registry.Version) error {
	value, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("plan of the cut-over: %w", err)
	}
	_, err = m.c.To.Registry.Txn(ctx, registry.Txn{Checks: []registry.Check{{Key: m.planKey(), Version: version}}, Puts: []registry.Put{{Key: m.planKey(), Value: value}}})
	return err
}
