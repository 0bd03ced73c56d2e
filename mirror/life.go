package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// lives says which life of the topic is mirrored, and into which one at the target. All other keys of
// a mirror are of that one, so that nothing that was noted of one topic is believed of the next.
type lives struct {
	Format int    `json:"format"`
	Source string `json:"source"`
	Target string `json:"target"`
}

func (m *Mirror) livesKey() string { return keyPrefix + m.c.Topic + "/lives" }

// prefix is what the other keys begin with.
func (m *Mirror) prefix() string { return keyPrefix + m.c.Topic + "/" + m.lives.Target + "/" }

// begin finds out which lives are mirrored, or decides it. A move that was done, of a topic that was
// deleted at the target since, is forgotten: it may move there again.
func (m *Mirror) begin(ctx context.Context) error {
	if err := m.checkHere(ctx); err != nil {
		return err
	}
	for {
		version, known, err := m.readLives(ctx)
		if err != nil {
			return err
		}
		if known {
			if known, err = m.stillKnown(ctx, &version); err != nil || known {
				return err
			}
		}
		doc, err := m.source.Get(ctx, m.c.Topic)
		if err != nil {
			return err
		}
		m.lives = lives{Format: stateFormat, Source: doc.Life, Target: doc.Life} // in one registry it stays
		if !m.c.SameRegistry {
			m.lives.Target = topic.NewLife()
			if err := m.checkDefined(ctx); err != nil {
				return err
			}
		}
		value, err := json.Marshal(m.lives)
		if err != nil {
			return fmt.Errorf("lives of the mirror: %w", err)
		}
		_, err = m.c.To.Registry.Txn(ctx, registry.Txn{
			Checks: []registry.Check{{Key: m.livesKey(), Version: version}}, Puts: []registry.Put{{Key: m.livesKey(), Value: value}},
		})
		if err == nil || !errors.Is(err, fault.Conflict) && !errors.Is(err, fault.Unknown) || ctx.Err() != nil {
			return err
		}
	}
}

func (m *Mirror) readLives(ctx context.Context) (_ registry.Version, known bool, _ error) {
	e, err := m.c.To.Registry.Get(ctx, m.livesKey())
	if errors.Is(err, fault.NotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	if m.lives, err = decodeLives(e.Key, e.Value); err != nil {
		return "", false, err
	}
	return e.Version, true, nil
}

func decodeLives(key string, value []byte) (l lives, err error) {
	if err := json.Unmarshal(value, &l); err != nil {
		return l, fmt.Errorf("registry key %q: %w: %w", key, fault.Corrupt, err)
	}
	if l.Format != stateFormat || l.Source == "" || l.Target == "" {
		return l, fmt.Errorf("registry key %q: a mirror of format %d from life %q to %q; expected format %d, and both: %w", key, l.Format, l.Source, l.Target, stateFormat, fault.Corrupt)
	}
	return l, nil
}

// stillKnown says whether the lives that were read are those to go on with. If not, the next ones
// replace version.
func (m *Mirror) stillKnown(ctx context.Context, version *registry.Version) (bool, error) {
	p, _, err := m.readPlan(ctx)
	if err != nil {
		return false, err
	}
	if p != nil && p.Done {
		gone, err := m.targetGone(ctx)
		if gone && err == nil {
			err = m.forget(ctx, *version)
			*version = ""
		}
		if gone || err != nil {
			return false, err
		}
	}
	doc, err := m.source.Get(ctx, m.c.Topic)
	switch {
	case p != nil && (errors.Is(err, fault.NotFound) || err == nil && doc.Life == m.lives.Source):
		return true, nil
	case err != nil:
		return false, err
	case doc.Life == m.lives.Source:
		return true, nil
	case p != nil:
		return false, fmt.Errorf("topic %q was made anew at the source since another one of that name was cut over to the target; delete it there first: %w", m.c.Topic, fault.Exists)
	}
	m.c.Logger.Warn("the topic was made anew at the source: it is copied from its beginning, and what was copied of the one before stays at the target",
		"topic", m.c.Topic, "storage", topic.StorageName(m.c.To.Namespace, m.c.Topic, m.lives.Target, 0))
	return false, nil
}

// checkHere refuses a source that was moved to another place than the target.
func (m *Mirror) checkHere(ctx context.Context) error {
	doc, err := m.source.Get(ctx, m.c.Topic)
	if errors.Is(err, fault.NotFound) {
		return nil // begin has decided that it may be gone
	}
	if err != nil || doc.Moved == nil || doc.Moved.To == m.c.To.Name {
		return err
	}
	return doc.CheckHere()
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
	gone, err := m.targetGone(ctx)
	if err != nil || !gone {
		return err
	}
	if _, err := m.target.Get(ctx, m.c.Topic); errors.Is(err, fault.NotFound) {
		return nil
	}
	return fmt.Errorf("topic %q is defined at the target, and is another one than the copy: mirror to another log or namespace, or give up the one at the target first: %w", m.c.Topic, fault.Exists)
}

// targetGone says whether the topic that was moved is not defined at the target any more.
func (m *Mirror) targetGone(ctx context.Context) (bool, error) {
	doc, err := m.target.Get(ctx, m.c.Topic)
	if errors.Is(err, fault.NotFound) {
		return true, nil
	}
	return err == nil && doc.Life != m.lives.Target, err
}

// forget drops what is known of an earlier move.
func (m *Mirror) forget(ctx context.Context, version registry.Version) error {
	all, err := m.c.To.Registry.List(ctx, m.prefix())
	if err != nil {
		return err
	}
	for _, e := range all.Entries { // the plan goes last: what a crash leaves is dropped again
		if e.Key == m.planKey() {
			continue
		}
		if _, err := m.c.To.Registry.Txn(ctx, registry.Txn{Deletes: []string{e.Key}, Quiet: true}); err != nil {
			return err
		}
	}
	_, err = m.c.To.Registry.Txn(ctx, registry.Txn{
		Checks: []registry.Check{{Key: m.livesKey(), Version: version}}, Deletes: []string{m.planKey(), m.livesKey()},
	})
	return err
}
