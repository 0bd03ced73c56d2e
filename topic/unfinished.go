package topic

import "context"

// Unfinished returns the topics whose creation or deletion was begun and has not ended, sorted by name, without those
// that are parts of something.
func (c *Catalog) Unfinished(ctx context.Context) ([]*Document, error) {
	snap, err := c.reg.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var all []*Document
	for _, e := range snap.Entries {
		if doc, err := c.decode(e); err == nil && doc.State != Ready && doc.Internal == "" {
			all = append(all, doc)
		}
	}
	return all, nil
}
