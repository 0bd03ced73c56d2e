package topic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// Retention bounds what each storage topic of a topic keeps. The zero value keeps all.
type Retention struct {
	Bytes int64 `json:"bytes"`  // about so many; 0: no bound
	AgeMS int64 `json:"age_ms"` // records for so long; 0: for ever
	Force bool  `json:"force"`  // drop also what a group has not processed
}

// Retention is the one that the configuration asks for.
func (c Config) Retention() Retention {
	return Retention{c.RetentionBytes, c.RetentionAgeMS, c.RetentionForce}
}

// Retention is the one that the topic has.
func (d *Document) Retention() Retention {
	return Retention{d.RetentionBytes, d.RetentionAgeMS, d.RetentionForce}
}

// Validate says whether a topic can have the retention.
func (r Retention) Validate(name string) error {
	if r.Bytes < 0 || r.AgeMS < 0 {
		return fmt.Errorf("topic %.40q: retention is negative (%d bytes, %s); expected 0 (keep all) or more: %w",
			name, r.Bytes, time.Duration(r.AgeMS)*time.Millisecond, fault.Invalid)
	}
	return nil
}

// Alter gives a topic another retention and returns the new definition. The definition is changed
// first, and says that the storage topics have to follow; then they do. What a crash leaves half done
// is finished by the next Alter, Ensure or consumer.
//
// Of two at the same time the later one wins. ErrNotFound for an unknown topic.
func (c *Catalog) Alter(ctx context.Context, name string, r Retention) (*Document, error) {
	if err := r.Validate(name); err != nil {
		return nil, err
	}
	life := ""
	for {
		doc, version, err := c.here(ctx, name, life)
		if err != nil {
			return nil, err
		}
		life = doc.Life
		doc.RetentionBytes, doc.RetentionAgeMS, doc.RetentionForce = r.Bytes, r.AgeMS, r.Force
		doc.Altering = true
		err = c.store(ctx, doc, version)
		if err == nil {
			return c.settleRetention(ctx, name, life)
		}
		if !errors.Is(err, fault.Conflict) {
			return nil, err
		}
	}
}

// settleRetention gives the storage topics the retention of the definition. No log can check the
// definition while it does that, so who finds afterwards that the definition says something else, as
// after a long stop, does it again.
func (c *Catalog) settleRetention(ctx context.Context, name, life string) (*Document, error) {
	var given *Retention // what was given last
	for {
		doc, version, err := c.here(ctx, name, life)
		if err != nil {
			return nil, err
		}
		switch r, last := doc.Retention(), len(doc.Storage)-1; {
		case doc.Storage[last].Creating && last > 0:
			err = c.finishAdd(ctx, doc, version)
		case doc.Altering:
			given = &r
			if err = c.giveRetention(ctx, doc, version); err == nil {
				return doc.visible(), nil
			}
		case given != nil && *given != r:
			doc.Altering = true
			err = c.store(ctx, doc, version)
		default:
			return doc.visible(), nil
		}
		if err != nil && !errors.Is(err, fault.Conflict) {
			return nil, err
		}
	}
}

func (c *Catalog) giveRetention(ctx context.Context, doc *Document, version registry.Version) error {
	for i := range doc.Storage {
		if err := c.log.AlterTopic(ctx, doc.storageConfig(i)); err != nil {
			_, _, gone := c.ready(ctx, doc.Name, doc.Life)
			return errors.Join(gone, err)
		}
	}
	doc.Altering = false
	return c.store(ctx, doc, version)
}
