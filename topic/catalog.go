package topic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

const prefix = "topics/"

// Catalog keeps the topics of one commit log in one registry. It has no state of its own.
type Catalog struct {
	log       *commitlog.Log
	reg       *registry.Registry
	namespace string
	logger    *slog.Logger // nil: the work is silent
}

// NewCatalog returns the catalog of log kept in reg. The namespace must be the one that reg was
// opened with: registries keep namespaces apart by themselves, logs don't.
func NewCatalog(log *commitlog.Log, reg *registry.Registry, namespace string) *Catalog {
	return &Catalog{log: log, reg: reg, namespace: namespace}
}

// Create makes a topic. It is nil when the same one exists already. ErrExists when a topic of another
// shape has the name. A topic that the log has, and the registry forgot, goes on: ErrExists when that has
// another shape. It finishes a creation or deletion that a crash interrupted.
func (c *Catalog) Create(ctx context.Context, name string, cfg Config) error {
	_, err := c.Ensure(ctx, name, cfg)
	return err
}

// CreateNew is EnsureUnless, but ErrExists when any topic has the name.
func (c *Catalog) CreateNew(ctx context.Context, name string, cfg Config, whyNot func(context.Context) error) error {
	if _, err := c.Get(ctx, name); err == nil {
		return fmt.Errorf("topic %q: %w", name, fault.Exists)
	} else if !errors.Is(err, fault.NotFound) {
		return err
	}
	_, err := c.EnsureUnless(ctx, name, cfg, whyNot)
	return err
}

// Ensure is Create, and returns the definition. An existing topic keeps its retention, whatever cfg
// says, see Alter.
func (c *Catalog) Ensure(ctx context.Context, name string, cfg Config) (*Document, error) {
	return c.EnsureUnless(ctx, name, cfg, nil)
}

// EnsureUnless is Ensure that calls whyNot before it finishes a deletion; an error of that is returned, and the
// topic stays as it was.
func (c *Catalog) EnsureUnless(ctx context.Context, name string, cfg Config, whyNot func(context.Context) error) (*Document, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(name); err != nil {
		return nil, err
	}
	for {
		doc, version, err := c.load(ctx, name)
		switch {
		case errors.Is(err, fault.NotFound):
			if doc, err = c.forgotten(ctx, name, cfg); err != nil && !errors.Is(err, fault.Conflict) {
				return nil, err
			}
			if err != nil {
				continue
			}
			if doc != nil {
				err = c.restore(ctx, doc)
				break
			}
			life := cmp.Or(cfg.Life, NewLife())
			doc = &Document{
				Name: name, Life: life, State: Creating,
				Storage: []Storage{{Name: StorageName(c.namespace, name, life, 0), Partitions: cfg.Partitions, K: 1}},
				Router:  cfg.Router, Hash: cfg.Hash,
				RetentionBytes: cfg.RetentionBytes, RetentionAgeMS: cfg.RetentionAgeMS, RetentionForce: cfg.RetentionForce,
				Altering: cfg.Life != "", // what the log has may have another
				Created:  time.Now().UnixMilli(),
				Internal: cfg.Internal,
				Note:     cfg.Note,
			}
			err = c.store(ctx, doc, "")
		case err != nil:
			return nil, err
		case doc.State == Deleting:
			if whyNot != nil {
				if err := whyNot(ctx); err != nil {
					return nil, fmt.Errorf("topic %q is being deleted, and can't be made anew before that is over: %w", name, err)
				}
			}
			if version, err = c.put(ctx, doc, version); err == nil { // the deletion can be taken back no more
				err = c.finishDelete(ctx, doc, version)
			}
		case cfg.Life != "" && doc.Life != cfg.Life:
			return nil, fmt.Errorf("topic %q is defined with life %s; asked for was %s: %w", name, doc.Life, cfg.Life, fault.Exists)
		case doc.Internal != cfg.Internal:
			return nil, errors.Join(doc.CheckPublic(), fmt.Errorf("topic %q is there already, and is a part of %q; asked for was %q: %w", name, doc.Internal, cfg.Internal, fault.Exists))
		case !doc.same(cfg):
			return nil, fmt.Errorf("topic %q has %d partitions, router %s, hash %s; asked for %d, %s, %s; use another name, or give it more partitions with \"ringfence topic add-storage %s\": %w",
				name, doc.Storage[0].Partitions, doc.Router, doc.Hash, cfg.Partitions, cfg.Router, cfg.Hash, name, fault.Exists)
		case doc.State == Ready:
			if err := doc.CheckHere(); err != nil {
				return doc, err
			}
			doc, _, err := c.caughtUp(ctx, name, doc.Life, false)
			if err != nil || !doc.Altering {
				return doc, err
			}
			doc, _, err = c.settleRetention(ctx, name, doc.Life)
			return doc, err
		default:
			err = c.finishCreate(ctx, doc, version)
		}
		if err != nil && !errors.Is(err, fault.Conflict) {
			return nil, err
		}
	}
}

// restore stores the definition of a topic that the log has, and no registry.
func (c *Catalog) restore(ctx context.Context, doc *Document) error {
	for i := doc.Left(); i < len(doc.Storage); i++ {
		if err := c.identify(ctx, doc, i); err != nil {
			return err
		}
	}
	now, err := c.bring(ctx, doc)
	if err != nil {
		return err
	}
	if now == nil {
		now = doc
	}
	if err = c.store(ctx, now, ""); err == nil {
		c.tellTakenUp(now)
	}
	return err
}

// finishCreate makes the storage topic of a definition and declares it ready. When the log holds
// another topic of that name, the definition is taken back: it must not be left half made.
func (c *Catalog) finishCreate(ctx context.Context, doc *Document, version registry.Version) error {
	err := c.log.CreateTopic(ctx, doc.storageConfig(0))
	if errors.Is(err, fault.Exists) {
		return errors.Join(fmt.Errorf("topic %q: the log holds a topic %q of another shape already: create it in that shape to take its records up: %w",
			doc.Name, doc.Storage[0].Name, err), c.drop(ctx, doc, version))
	}
	if err == nil {
		err = c.identify(ctx, doc, 0)
	}
	if err != nil {
		return c.unlessEnded(ctx, doc, 0, err)
	}
	doc.State = Ready
	return c.storeMade(ctx, doc, version, 0)
}

// Get returns the definition of a topic.
func (c *Catalog) Get(ctx context.Context, name string) (*Document, error) {
	doc, _, err := c.Defined(ctx, name)
	return doc, err
}

// Defined is Get, with a check that holds while the definition stays the same.
func (c *Catalog) Defined(ctx context.Context, name string) (*Document, registry.Check, error) {
	doc, version, err := c.ready(ctx, name, "")
	if err != nil {
		return nil, registry.Check{}, err
	}
	return doc, registry.Check{Key: prefix + name, Version: version}, nil
}

// Listed is a topic of a list: its definition, or why that can't be used.
type Listed struct {
	Name       string
	Definition *Document
	Err        error
}

// List returns the ready topics, and those with an unusable definition, sorted by name.
func (c *Catalog) List(ctx context.Context) ([]Listed, error) {
	snap, err := c.reg.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var list []Listed
	for _, e := range snap.Entries {
		name := strings.TrimPrefix(e.Key, prefix)
		switch doc, err := c.decode(e); {
		case err != nil:
			list = append(list, Listed{Name: name, Err: err})
		case doc.State == Ready:
			list = append(list, Listed{Name: name, Definition: doc})
		}
	}
	return list, nil
}

// Delete removes a topic and its records; with a topic ID (life) only that one. ErrNotFound when
// there is none, ErrAnotherLife when another topic has the name.
func (c *Catalog) Delete(ctx context.Context, name, life string) error {
	return c.DeleteUnless(ctx, name, life, nil)
}

// DeleteUnless is Delete that calls whyNot once the definition is marked as being deleted, so that no group
// begins to consume it any more. An error of whyNot is returned; when it is ErrConflict, the topic is as it was
// before.
func (c *Catalog) DeleteUnless(ctx context.Context, name, life string, whyNot func(context.Context) error) error {
	if err := CheckName(name); err != nil {
		return err
	}
	marked := false
	for begun := false; ; begun = true {
		doc, version, err := c.load(ctx, name)
		if err == nil {
			err = doc.inLife(life)
		}
		switch {
		case begun && errors.Is(err, fault.NotFound):
			return nil // another process has finished it
		case err != nil:
			return err
		}
		life = doc.Life
		was := doc.State
		if was != Deleting || !marked {
			doc.State = Deleting // anew, so that another deletion can't take its mark back
			version, err = c.put(ctx, doc, version)
			if errors.Is(err, fault.Conflict) {
				continue
			}
			if err != nil {
				return err
			}
			marked = true
		}
		if whyNot != nil {
			if err := whyNot(ctx); err != nil {
				if was != Deleting && errors.Is(err, fault.Conflict) {
					err = errors.Join(err, c.takeBack(ctx, doc, was, version))
				}
				return err
			}
		}
		if err := c.finishDelete(ctx, doc, version); !errors.Is(err, fault.Conflict) {
			return err
		} // another process finishes it too
	}
}

// takeBack ends a deletion that has done nothing yet.
func (c *Catalog) takeBack(ctx context.Context, doc *Document, was State, version registry.Version) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTimeout) // no other process would
	defer cancel()
	doc.State = was
	for {
		switch err := c.store(ctx, doc, version); {
		case !errors.Is(err, fault.Conflict):
			return err
		case !errors.Is(err, fault.Unknown):
			return nil // another process goes on with it, or a write did it whose answer was lost
		}
	}
}

// Life returns the ID of a topic, also of a half-made or half-deleted one.
func (c *Catalog) Life(ctx context.Context, name string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	doc, _, err := c.load(ctx, name)
	if err != nil {
		return "", err
	}
	return doc.Life, nil
}

func (c *Catalog) finishDelete(ctx context.Context, doc *Document, version registry.Version) error {
	names, err := c.storageOf(ctx, doc)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.log.DeleteTopic(ctx, name); err != nil && !errors.Is(err, fault.NotFound) {
			return err
		}
	}
	if doc.Internal == "" {
		if err := c.clearGroups(ctx, doc, version); err != nil {
			return err
		}
	}
	return c.drop(ctx, doc, version)
}

// storageOf names the storage topics of a topic, the oldest first: those of the definition, and what the log has of
// its life besides.
func (c *Catalog) storageOf(ctx context.Context, doc *Document) ([]string, error) {
	var names []string
	for _, s := range doc.Storage {
		if !s.Retired || s.Clearing {
			names = append(names, s.Name)
		}
	}
	lives, err := c.lives(ctx, doc.Name)
	for _, i := range slices.Sorted(maps.Keys(lives[doc.Life])) {
		if name := lives[doc.Life][i].Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, err
}

// clearGroups removes the groups of a topic whose records are gone: those that came during an interrupted
// deletion. Their progress would be taken for progress in the next topic of the name. A group that was seen while the
// deletion was under way is none of that one, which may be there by now.
func (c *Catalog) clearGroups(ctx context.Context, doc *Document, version registry.Version) error {
	groups, err := protocol.ListGroups(ctx, c.reg)
	for i := 0; i < len(groups) && err == nil; i++ {
		var g *protocol.Group
		if g, err = protocol.NewGroup(c.reg, groups[i]); err != nil {
			return err
		}
		var m protocol.Meta
		switch m, err = g.Meta(ctx); {
		case errors.Is(err, fault.NotFound), errors.Is(err, fault.Corrupt), errors.Is(err, fault.Invalid):
			err = nil // gone meanwhile, or its topic is unknown
		case err == nil && m.Topic == doc.Name:
			var now registry.Version
			if _, now, err = c.load(ctx, doc.Name); err == nil && now != version || errors.Is(err, fault.NotFound) {
				return fmt.Errorf("topic %q: another process has finished its deletion: %w", doc.Name, fault.Conflict)
			}
			if err == nil {
				err = g.Within(m.Life).Destroy(ctx)
			}
		}
	}
	return err
}

func (c *Catalog) drop(ctx context.Context, doc *Document, version registry.Version) error {
	_, err := c.reg.Txn(ctx, registry.Txn{
		Checks:  []registry.Check{{Key: prefix + doc.Name, Version: version}},
		Deletes: []string{prefix + doc.Name},
	})
	return err
}

func (c *Catalog) load(ctx context.Context, name string) (*Document, registry.Version, error) {
	e, err := c.reg.Get(ctx, prefix+name)
	if errors.Is(err, fault.NotFound) {
		return nil, "", fmt.Errorf("topic %q: %w", name, fault.NotFound)
	}
	if err != nil {
		return nil, "", err
	}
	doc, err := c.decode(e)
	return doc, e.Version, err
}

// decode reads a definition of this catalog.
func (c *Catalog) decode(e registry.Entry) (*Document, error) {
	doc, err := decode(e.Key, e.Value)
	if err == nil {
		err = doc.checkNames(c.namespace)
	}
	if err != nil {
		return nil, err
	}
	return doc, nil
}

// store writes the definition if it still has version. A write of unknown outcome counts as a
// conflict: the caller reads again and goes on from what it finds.
func (c *Catalog) store(ctx context.Context, doc *Document, version registry.Version) error {
	_, err := c.put(ctx, doc, version)
	return err
}

// put is store, and returns the new version.
func (c *Catalog) put(ctx context.Context, doc *Document, version registry.Version) (registry.Version, error) {
	doc.Format = format
	versions, err := c.reg.Txn(ctx, registry.Txn{
		Checks: []registry.Check{{Key: prefix + doc.Name, Version: version}},
		Puts:   []registry.Put{{Key: prefix + doc.Name, Value: registry.Encode(doc)}},
	})
	if errors.Is(err, fault.Unknown) && ctx.Err() == nil {
		err = fmt.Errorf("topic %q: %w: %w", doc.Name, fault.Conflict, err)
	}
	if err != nil {
		return "", err
	}
	return versions[0], nil
}
