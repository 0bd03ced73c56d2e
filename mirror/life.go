package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// lives says which life of the topic is mirrored, and into which one at the target. All keys of a mirror are of
// the latter, so that nothing that was noted of one topic is believed of the next. It follows from the
// life at the source, so that it is the same one after a registry went back. In one registry it stays.
type lives struct{ Source, Target string }

// prefix is what the keys begin with.
func (m *Mirror) prefix() string { return keyPrefix + m.c.Topic + "/" + m.lives.Target + "/" }

// begin finds out which lives are mirrored.
func (m *Mirror) begin(ctx context.Context) error {
	doc, err := m.source.Get(ctx, m.c.Topic)
	if errors.Is(err, fault.NotFound) {
		return m.beginDone(ctx, err)
	}
	if err != nil {
		return err
	}
	if doc.Moved != nil && doc.Moved.To != m.c.To.Name {
		return doc.CheckHere()
	}
	m.lives = lives{Source: doc.Life, Target: doc.Life}
	if m.c.SameRegistry {
		return nil
	}
	m.lives.Target = topic.NextLife(doc.Life)
	return m.checkDefined(ctx)
}

// beginDone begins with a source that was deleted since the topic was cut over.
func (m *Mirror) beginDone(ctx context.Context, missing error) error {
	doc, err := m.target.Get(ctx, m.c.Topic)
	if errors.Is(err, fault.NotFound) {
		return missing
	}
	if err != nil {
		return err
	}
	m.lives.Target = doc.Life
	if p, _, err := m.readPlan(ctx); err != nil || p != nil {
		return err
	}
	return missing
}

// sourceNow is the definition of the topic that is mirrored.
func (m *Mirror) sourceNow(ctx context.Context) (*topic.Document, error) {
	doc, err := m.source.Get(ctx, m.c.Topic)
	if err == nil && doc.Life != m.lives.Source {
		err = fmt.Errorf("topic %q was deleted at the source while it was copied, and made anew; start the mirror again to copy that: %w", m.c.Topic, fault.Conflict)
	}
	return doc, err
}

// retired says whether an error is that a storage topic of the source was retired meanwhile: no group
// needs it, and it has no records any more.
func (m *Mirror) retired(ctx context.Context, storage int, err error) bool {
	if !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.OutOfRange) {
		return false
	}
	doc, err := m.sourceNow(ctx)
	return err == nil && storage < doc.Left()
}

// checkDefined refuses a target that defines another topic of the name.
func (m *Mirror) checkDefined(ctx context.Context) error {
	doc, err := m.target.Get(ctx, m.c.Topic)
	if errors.Is(err, fault.NotFound) || err == nil && doc.Life == m.lives.Target {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("topic %q is defined at the target, and is another one than the copy: mirror to another log or namespace, or give up the one at the target first: %w", m.c.Topic, fault.Exists)
}

// moved says whether the source has ended, because the topic is at the target now. Its log knows.
func (m *Mirror) moved(ctx context.Context) (bool, error) {
	if m.c.SameRegistry {
		return false, nil
	}
	doc, err := m.sourceNow(ctx)
	if err != nil {
		return false, err
	}
	ended, err := m.source.Ended(ctx, doc)
	if err == nil && ended != nil && ended.To != m.c.To.Name {
		err = fmt.Errorf("topic %q was moved to %s; go on there, with its log and its registry: %w", m.c.Topic, ended.To, fault.Conflict)
	}
	return ended != nil, err
}

// forget drops a plan that can't be carried out any more.
func (m *Mirror) forget(ctx context.Context) error {
	all, err := m.c.To.Registry.List(ctx, m.prefix()+"carried/")
	if err != nil {
		return err
	}
	for _, e := range all.Entries {
		if _, err := m.c.To.Registry.Txn(ctx, registry.Txn{Deletes: []string{e.Key}, Quiet: true}); err != nil {
			return err
		}
	}
	_, err = m.c.To.Registry.Txn(ctx, registry.Txn{Deletes: []string{m.planKey()}})
	return err
}
