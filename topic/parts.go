package topic

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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

// Delete removes a part and its records. ErrNotFound when there is none, ErrNotPart when the topic has
// another owner: it stays as it is.
func (p Parts) Delete(ctx context.Context, name string) error {
	doc, _, err := p.catalog.load(ctx, name)
	if err == nil {
		err = p.Check(doc)
	}
	if err != nil {
		return err
	}
	if err := p.catalog.Delete(ctx, name, doc.Life); !errors.Is(err, fault.NotFound) {
		return err
	}
	return nil // it is gone already; the present topic of the name was not meant
}

// List returns all parts, in any state, sorted by name. An unreadable topic has no owner.
func (p Parts) List(ctx context.Context) ([]*Document, error) {
	snap, err := p.catalog.reg.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var parts []*Document
	for _, e := range snap.Entries {
		if doc, err := p.catalog.decode(e); err == nil && p.Check(doc) == nil {
			parts = append(parts, doc)
		}
	}
	return parts, nil
}
