package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/spell"
)

// Check compares what the registry says of a topic with what the log has. It changes nothing. ErrNotFound when neither
// has the topic.
func (c *Catalog) Check(ctx context.Context, name string) (*api.TopicCheck, error) {
	check, _, err := c.compare(ctx, name)
	return check, err
}

// Repair brings the definition forward to what the log has, and says what it did not know. A dry run only says it.
func (c *Catalog) Repair(ctx context.Context, name string, dry bool) (*api.TopicCheck, error) {
	for {
		check, now, err := c.compare(ctx, name)
		if err != nil || dry || now == nil {
			return check, err
		}
		if _, _, err = c.load(ctx, name); errors.Is(err, fault.NotFound) {
			err = c.restore(ctx, now)
		} else if err == nil {
			if _, _, err = c.caughtUp(ctx, name, now.Life, false); err == nil {
				err = c.Resume(ctx, name, now.Life)
			}
		}
		if err == nil {
			check.Repaired = true
			return check, nil
		}
		if !errors.Is(err, fault.Conflict) || ctx.Err() != nil {
			return nil, err
		}
	}
}

// compare makes the check, and the definition that the log tells of; nil: there is none, or nothing differs.
func (c *Catalog) compare(ctx context.Context, name string) (_ *api.TopicCheck, now *Document, _ error) {
	if err := CheckName(name); err != nil {
		return nil, nil, err
	}
	check := &api.TopicCheck{Topic: name, Storage: []api.CheckedStorage{}, Differences: []string{}}
	lives, err := c.lives(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	doc, _, err := c.ready(ctx, name, "")
	var problem error
	switch {
	case err == nil:
		if now, problem = c.bring(ctx, doc); now != nil {
			check.Differences = append(check.Differences, doc.unknown(now)...)
		}
	case !errors.Is(err, fault.NotFound) || len(lives) == 0:
		return nil, nil, err
	default:
		if _, _, defined := c.load(ctx, name); !errors.Is(defined, fault.NotFound) {
			return nil, nil, err // half made, or half deleted
		}
		doc = &Document{Name: name}
		if now, problem = c.remembered(name, lives); problem == nil {
			check.Differences = append(check.Differences, "the topic, of which the log has "+spell.Plural(int64(len(lives[now.Life])), "storage topic"))
			if brought, err := c.bring(ctx, now); err != nil {
				problem = err
			} else if brought != nil {
				now = brought
			}
		}
	}
	if problem != nil {
		if !errors.Is(problem, fault.NotFound) && !errors.Is(problem, fault.Corrupt) && !errors.Is(problem, fault.Exists) {
			return nil, nil, problem
		}
		check.Problem, now = problem.Error(), nil
	}
	check.ID = doc.Life
	known := doc
	if now != nil {
		check.ID, known = now.Life, now
	}
	for life := range lives {
		if life != check.ID && check.ID != "" {
			check.Differences = append(check.Differences, fmt.Sprintf("another topic of the name, with the topic ID %s", life))
		}
	}
	slices.Sort(check.Differences)
	for i, s := range known.Storage {
		st, there := lives[check.ID][i]
		if !there || !s.Retired || isCopy(st) || check.Problem != "" {
			continue
		}
		used, err := c.records(ctx, storages{i: st})
		if err != nil {
			return nil, nil, err
		}
		if used {
			check.Problem = cameBack(name, s.Name)
		}
	}
	check.Storage, err = c.sideBySide(ctx, doc, known, lives[check.ID])
	return check, now, err
}

// remembered is the definition of a topic that only the log knows.
func (c *Catalog) remembered(name string, lives map[string]storages) (*Document, error) {
	cfg := Config{}
	if len(lives) == 1 {
		for _, all := range lives {
			card, err := DecodeCard(all.newest().Name, all.newest().Card)
			if err != nil {
				return nil, err
			}
			if card != nil { // in the shape that it has
				cfg.Partitions, cfg.Router, cfg.Hash, cfg.Internal = card.Partitions[0], card.Router, card.Hash, card.Internal
			}
		}
	}
	return c.takeUp(name, lives, cfg)
}

func (c *Catalog) sideBySide(ctx context.Context, doc, known *Document, has storages) ([]api.CheckedStorage, error) {
	all := []api.CheckedStorage{}
	for i, s := range known.Storage {
		at := api.CheckedStorage{Index: i, Name: s.Name, Registry: "unknown", Log: "missing"}
		if i < len(doc.Storage) {
			at.Registry = doc.storageState(i)
		}
		if _, ok := has[i]; ok {
			st, err := c.log.Topic(ctx, s.Name)
			if err != nil {
				return nil, err
			}
			sealed, err := isSealed(ctx, st)
			if err = errors.Join(err, st.Close()); err != nil {
				return nil, err
			}
			if at.Log = "open"; sealed {
				at.Log = "sealed"
			}
		}
		all = append(all, at)
	}
	return all, nil
}
