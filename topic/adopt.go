package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// Adopt stores a definition whose storage topics exist already, as a mirror has made them, but for the last, which it
// makes where it is missing. It replaces one of the same topic with the same routing and at most as many storage topics; with
// another one it is ErrExists.
func (c *Catalog) Adopt(ctx context.Context, doc *Document) error {
	if err := errors.Join(CheckName(doc.Name), doc.checkNames(c.namespace)); err != nil {
		return err
	}
	if err := c.log.CreateTopic(ctx, doc.storageConfig(len(doc.Storage)-1)); err != nil {
		return fmt.Errorf("topic %q: %w", doc.Name, err)
	}
	made := *doc // the identities are those of this log
	made.Storage = slices.Clone(doc.Storage)
	for i := range made.Storage {
		if made.Storage[i].ID = ""; !made.Storage[i].Retired {
			if err := c.identify(ctx, &made, i); err != nil {
				return err
			}
		}
	}
	for {
		have, version, err := c.load(ctx, doc.Name)
		if err != nil && !errors.Is(err, fault.NotFound) {
			return err
		}
		if err == nil && have.Moved == nil && doc.leadsTo(have) && doc.Storage[0].Name == have.Storage[0].Name {
			return nil // it was done before, and may have grown since
		}
		if err == nil && !have.leadsTo(doc) {
			return fmt.Errorf("topic %q is defined in another shape already: %w", doc.Name, fault.Exists)
		}
		d := made
		d.State = Ready
		d.Altering, d.Before = true, nil // what was made for it may have a retention that it had before
		if err := c.store(ctx, &d, version); !errors.Is(err, fault.Conflict) {
			return err
		}
	}
}

// Restore defines a topic of that ID anew by what the log has of it, and returns the definition. A storage topic for
// new records follows those that a mirror has copied. ErrNotFound when the log has nothing of it.
func (c *Catalog) Restore(ctx context.Context, name, life string) (*Document, error) {
	lives, err := c.lives(ctx, name)
	if err != nil {
		return nil, err
	}
	all := lives[life]
	if len(all) == 0 {
		return nil, fmt.Errorf("topic %q: this log has no storage topic of it (topic ID %s): it was deleted here, or this is another log: %w", name, life, fault.NotFound)
	}
	card, err := DecodeCard(all.newest().Name, all.newest().Card)
	if err == nil && card == nil {
		err = fmt.Errorf("storage topic %q has no card, which tells what the topic is like: %w", all.newest().Name, fault.Corrupt)
	}
	if err != nil {
		return nil, err
	}
	if card.From != nil {
		card.Partitions = append(card.Partitions, card.Partitions[len(card.Partitions)-1])
	}
	doc := c.ofCard(name, life, card, all)
	if err := doc.CheckHere(); err != nil {
		return nil, err
	}
	if err := c.Adopt(ctx, doc); err != nil {
		return nil, err
	}
	doc, _, err = c.caughtUp(ctx, name, life, true)
	return doc, err
}

// movedSuffix ends no other storage topic's name: those end in a number.
const movedSuffix = "..new"

// MovedName is the name that a storage topic gets in another log, when its topic moves there within
// one registry. The definition is then of the other log, and by that name it can't be mistaken.
func MovedName(storage string) string { return storage + movedSuffix }

// moved is the error of a definition that is not, or no more, of the log that this catalog keeps
// the topics of.
func (c *Catalog) moved(doc *Document, missing string) error {
	return fmt.Errorf("topic %q was moved to another log: its storage topic is %q now, which this log does not have; use the URL of the log that it was moved to (--log, RINGFENCE_LOG): %w",
		doc.Name, missing, fault.Conflict)
}

// checkKept is the error of a definition that was moved while the storage topics of old were open.
func (c *Catalog) checkKept(old, doc *Document) error {
	if old == nil {
		return nil
	}
	for i := range min(len(old.Storage), len(doc.Storage)) {
		if name := doc.Storage[i].Name; name != old.Storage[i].Name && strings.HasSuffix(name, movedSuffix) {
			return c.moved(doc, name)
		}
	}
	return nil
}

// openStorage opens a storage topic of a definition.
func (c *Catalog) openStorage(ctx context.Context, doc *Document, i int) (*commitlog.Topic, error) {
	name := doc.Storage[i].Name
	st, err := c.log.Topic(ctx, name)
	switch {
	case errors.Is(err, fault.NotFound) && strings.HasSuffix(name, movedSuffix):
		return nil, c.moved(doc, name)
	case err != nil:
		return nil, fmt.Errorf("storage topic %q of topic %q: %w", name, doc.Name, err)
	}
	if err := doc.checkSame(i, st); err != nil {
		return nil, closeAll(err, []*commitlog.Topic{st})
	}
	return st.First(doc.Storage[i].Partitions), nil
}

// leadsTo says whether doc can be what became of d.
func (d *Document) leadsTo(doc *Document) bool {
	if d.Life != doc.Life || d.Router != doc.Router || d.Hash != doc.Hash || len(d.Storage) > len(doc.Storage) || d.Produce > doc.Produce {
		return false
	}
	for i, s := range d.Storage {
		name := doc.Storage[i].Name
		if s.Partitions != doc.Storage[i].Partitions || s.Retired && !doc.Storage[i].Retired || name != s.Name && name != MovedName(s.Name) {
			return false
		}
	}
	return true
}
