package subscription

import "context"

// Unfinished returns the definitions whose creation or deletion was begun and has not ended, sorted by name.
func (c *Catalog) Unfinished(ctx context.Context) ([]*Document, error) {
	snap, err := c.reg.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var all []*Document
	for _, e := range snap.Entries {
		if d, err := decodeDocument(e); err == nil && d.State != ready {
			all = append(all, d)
		}
	}
	return all, nil
}
