package topic

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
)

// Adopt stores a definition whose storage topics exist already, as a mirror has made them. It
// replaces one of the same topic with the same routing and at most as many storage topics; with
// another one it is ErrExists.
func (c *Catalog) Adopt(ctx context.Context, doc *Document) error {
	if err := CheckName(doc.Name); err != nil {
		return err
	}
	for {
		have, version, err := c.load(ctx, doc.Name)
		if err != nil && !errors.Is(err, fault.NotFound) {
			return err
		}
		if err == nil && !have.leadsTo(doc) {
			return fmt.Errorf("topic %q is defined in another shape already: %w", doc.Name, fault.Exists)
		}
		d := *doc
		d.State = Ready
		if err := c.store(ctx, &d, version); !errors.Is(err, fault.Conflict) {
			return err
		}
	}
}

// leadsTo says whether doc can be what became of d.
func (d *Document) leadsTo(doc *Document) bool {
	if d.Router != doc.Router || d.Hash != doc.Hash || len(d.Storage) > len(doc.Storage) || d.Produce > doc.Produce {
		return false
	}
	for i, s := range d.Storage {
		if s.Partitions != doc.Storage[i].Partitions || s.Name != doc.Storage[i].Name {
			return false
		}
	}
	return true
}
