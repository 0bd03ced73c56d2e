package topic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
)

// Parts are the topics of one owner, see Config.Internal. An owner makes, uses and deletes its topics through
// here: a topic of users, or of another owner, may have the name, and stays as it is.
type Parts struct {
	catalog *Catalog
	owner   string
}

// ErrNotPart is for a topic that has another owner. It is fault.Conflict.
var ErrNotPart = fmt.Errorf("it has another owner: %w", fault.Conflict)

// Parts returns the topics of an owner, which is not "".
func (c *Catalog) Parts(owner string) Parts { return Parts{c, owner} }

// Check is ErrNotPart for a topic of another owner. A topic never changes its owner.
func (p Parts) Check(d *Document) error {
	if p.owner != "" && d.Internal == p.owner {
		return nil
	}
	whose := cmp.Or(d.Internal, "its users")
	return fmt.Errorf("topic %q is no part of %s, but of %.*q: %w", d.Name, p.owner, maxInternalBytes, whose, ErrNotPart)
}

// Ensure makes a part unless it exists, and returns its definition. ErrExists for a topic of another shape,
// ErrNotPart for one of another owner.
func (p Parts) Ensure(ctx context.Context, name string, cfg Config) (*Document, error) {
	cfg.Internal = p.owner
	doc, err := p.catalog.Ensure(ctx, name, cfg)
	if err == nil {
		err = p.Check(doc)
	}
	return doc, err
}

// Delete removes a part and its records, also one that only the log has. ErrNotFound when there is none, ErrNotPart
// when the topic has another owner: it stays as it is.
func (p Parts) Delete(ctx context.Context, name string) error {
	doc, _, err := p.catalog.load(ctx, name)
	if errors.Is(err, fault.NotFound) {
		return p.deleteForgotten(ctx, name, err)
	}
	if err == nil {
		err = p.Check(doc)
	}
	if err != nil {
		return err
	}
	if err := p.catalog.Delete(ctx, name, doc.Life); err != nil && !errors.Is(err, fault.NotFound) {
		return err // or it is gone already; the present topic of the name was not meant
	}
	if _, _, err := p.catalog.load(ctx, name); !errors.Is(err, fault.NotFound) {
		return err
	}
	return p.deleteForgotten(ctx, name, nil) // of which there may be more
}

// deleteForgotten removes what the log has of a part that the registry has forgotten; none is its error when there
// is nothing.
func (p Parts) deleteForgotten(ctx context.Context, name string, none error) error {
	all, err := p.inLog(ctx)
	if err != nil {
		return err
	}
	for _, st := range all {
		if st.topic != name {
			continue
		}
		none = nil
		if err := p.catalog.log.DeleteTopic(ctx, st.name); err != nil && !errors.Is(err, fault.NotFound) {
			return err
		}
	}
	return none
}

// Part is what is known of one.
type Part struct {
	Name    string
	Note    string
	Known   bool // the registry has its definition
	InLog   bool
	Records bool // the log has records of it
}

// List returns all parts, in any state, sorted by name. An unreadable topic has no owner.
func (p Parts) List(ctx context.Context) ([]Part, error) {
	snap, err := p.catalog.reg.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	parts := map[string]Part{}
	for _, e := range snap.Entries {
		if doc, err := p.catalog.decode(e); err == nil && p.Check(doc) == nil {
			parts[doc.Name] = Part{Name: doc.Name, Note: doc.Note, Known: true}
		}
	}
	all, err := p.inLog(ctx)
	for _, st := range all {
		parts[st.topic] = Part{st.topic, st.note, parts[st.topic].Known, true, st.records || parts[st.topic].Records}
	}
	return slices.SortedFunc(maps.Values(parts), func(a, b Part) int { return cmp.Compare(a.Name, b.Name) }), err
}

// inLog is a storage topic of a part.
type inLog struct {
	topic, name, note string
	records           bool
}

// inLog returns what the log has of the parts, by their cards.
func (p Parts) inLog(ctx context.Context) (all []inLog, _ error) {
	topics, err := p.catalog.log.Topics(ctx)
	if err != nil {
		return nil, err
	}
	start := strings.TrimSuffix(StorageName(p.catalog.namespace, "", "", 0), "..0.")
	for _, st := range topics {
		rest, ours := strings.CutPrefix(st.Name, start)
		name, index, ok := strings.Cut(rest, "..")
		if !ours || !ok || strings.Contains(index, "..") { // or it is of another namespace
			continue
		}
		card, err := DecodeCard(st.Name, st.Card)
		if err != nil || card == nil || card.Internal != p.owner {
			continue
		}
		open, err := p.catalog.log.Topic(ctx, st.Name)
		var used bool
		if err == nil {
			used, err = hasRecords(ctx, open)
			err = errors.Join(err, open.Close())
		}
		switch {
		case err == nil:
			all = append(all, inLog{name, st.Name, card.Note, used})
		case !errors.Is(err, fault.NotFound): // or it was just deleted, and the list still has it
			return nil, err
		}
	}
	return all, nil
}
