package topic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// Retention bounds what each storage topic of a topic keeps. The zero value keeps all.
type Retention struct {
	Bytes int64 `json:"bytes"`  // about so many; 0: no bound
	AgeMS int64 `json:"age_ms"` // records for so long; 0: for ever
	Force bool  `json:"force"`  // drop also what a group has not processed
}

// Retention returns the one that the configuration asks for.
func (c Config) Retention() Retention {
	return Retention{c.RetentionBytes, c.RetentionAgeMS, c.RetentionForce}
}

// Retention returns the topic's retention.
func (d *Document) Retention() Retention {
	return Retention{d.RetentionBytes, d.RetentionAgeMS, d.RetentionForce}
}

// TellRetention warns when a topic that was to be made existed already, with another retention.
func (d *Document) TellRetention(logger *slog.Logger, asked Config) {
	if d.Retention() == asked.Retention() {
		return
	}
	logger.Warn("the topic was there already with another retention, which stays: ringfence topic alter changes it", "topic", d.Name,
		"retention_bytes", d.RetentionBytes, "retention_age", time.Duration(d.RetentionAgeMS)*time.Millisecond, "retention_force", d.RetentionForce,
		"asked_bytes", asked.RetentionBytes, "asked_age", time.Duration(asked.RetentionAgeMS)*time.Millisecond, "asked_force", asked.RetentionForce)
}

// Validate checks that a topic can have the retention.
func (r Retention) Validate(name string) error {
	if r.Bytes < 0 || r.AgeMS < 0 {
		return fmt.Errorf("topic %.40q: retention is negative (%d bytes, %s); expected 0 (keep all) or more: %w",
			name, r.Bytes, time.Duration(r.AgeMS)*time.Millisecond, fault.Invalid)
	}
	return nil
}

// setRetention gives the definition a retention, which is not everywhere yet. before is the retention to
// go back to when a log refuses it; nil: none is known.
func (d *Document) setRetention(r Retention, before *Retention) {
	d.RetentionBytes, d.RetentionAgeMS, d.RetentionForce = r.Bytes, r.AgeMS, r.Force
	d.Altering, d.Before = true, before
	for i := range d.Storage {
		d.Storage[i].Spent = false // it was spent by another retention
	}
}

// Alter gives a topic another retention and returns the new definition. The definition is changed
// first, and says that the storage topics have to follow; then they do. After a crash the next Alter,
// Ensure or consumer finishes it. When the log refuses the retention for good, all goes back to the
// one before, in the same way, and the error is the refusal.
//
// It alters one topic ID, unless that is "", and a topic with the retention from, unless that is nil: ErrConflict
// when it has another by now. Of two at the same time the later one wins. ErrNotFound for an unknown topic.
func (c *Catalog) Alter(ctx context.Context, name, life string, from *Retention, r Retention) (*Document, error) {
	if err := r.Validate(name); err != nil {
		return nil, err
	}
	for {
		doc, version, err := c.public(ctx, name, life)
		if err != nil {
			return nil, err
		}
		if from != nil && doc.Retention() != *from {
			return nil, fmt.Errorf("topic %q: its retention was changed meanwhile: %w", name, fault.Conflict)
		}
		life = doc.Life
		before := doc.Before // what was in force everywhere
		if have := doc.Retention(); before == nil {
			before = &have
		}
		doc.setRetention(r, before)
		err = c.store(ctx, doc, version)
		if err == nil {
			doc, refusal, err := c.settleRetention(ctx, name, life)
			return doc, errors.Join(refusal, err)
		}
		if !errors.Is(err, fault.Conflict) {
			return nil, err
		}
	}
}

// Spend drops all that a sealed storage topic still has, below the holds of groups and mirrors, when
// those after it hold as many bytes as the topic keeps. After a crash the next Spend finishes it.
func (c *Catalog) Spend(ctx context.Context, name, life string, storage int) error {
	for {
		doc, version, err := c.here(ctx, name, life)
		if err != nil || doc.RetentionBytes == 0 || storage >= doc.Produce || doc.Storage[storage].Retired || doc.Storage[storage].Spent && !doc.Altering {
			return err
		}
		doc.Storage[storage].Spent, doc.Altering = true, true
		if have := doc.Retention(); doc.Before == nil {
			doc.Before = &have
		}
		if err = c.store(ctx, doc, version); err == nil {
			_, refusal, err := c.settleRetention(ctx, name, doc.Life)
			return errors.Join(refusal, err)
		}
		if !errors.Is(err, fault.Conflict) {
			return err
		}
	}
}

// settleRetention gives the storage topics the retention of the definition. No log can check the
// definition meanwhile, so settleRetention reads it again afterwards, and repeats when it has changed,
// as after a long stop. A refusal is why the definition has the retention from before again.
func (c *Catalog) settleRetention(ctx context.Context, name, life string) (settled *Document, refusal, err error) {
	var given []commitlog.TopicConfig // what was given last
	for {
		doc, version, err := c.here(ctx, name, life)
		if err != nil {
			return nil, refusal, err
		}
		switch {
		case doc.Altering:
			given = doc.storageConfigs()
			err = c.giveRetention(ctx, doc, version)
			if err == nil {
				return doc, refusal, nil
			}
			if refuses(ctx, err) {
				if doc.Before == nil {
					return nil, refusal, fmt.Errorf("topic %q: the log refuses the retention that its definition has; change it (topic alter) to one that it takes: %w", name, err)
				}
				refusal = fmt.Errorf("topic %q: the log refuses the retention, and the topic keeps the one that it had: %w", name, err)
				doc.setRetention(*doc.Before, nil)
				err = c.store(ctx, doc, version)
			}
		case doc.differs(given):
			doc.Altering, doc.Before = true, nil
			err = c.store(ctx, doc, version)
		default:
			return doc, refusal, nil
		}
		if err != nil && !errors.Is(err, fault.Conflict) {
			return nil, refusal, err
		}
	}
}

// storageConfigs is what each storage topic should be like, retired or not.
func (d *Document) storageConfigs() []commitlog.TopicConfig {
	all := make([]commitlog.TopicConfig, len(d.Storage))
	for i := range all {
		all[i] = d.storageConfig(i)
	}
	return all
}

// differs reports whether a storage topic should have another retention than it was given.
func (d *Document) differs(given []commitlog.TopicConfig) bool {
	for i := d.Left(); i < min(len(given), len(d.Storage)); i++ {
		if given[i].WithRetentionOf(d.storageConfig(i)) != given[i] {
			return true
		}
	}
	return false
}

// refuses reports whether a log's error is its last word: it is neither of this moment nor of this call.
func refuses(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	for _, passing := range []error{
		fault.Unavailable, fault.Unknown, fault.NotDone, fault.Conflict, fault.Closed, fault.NotFound, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, passing) {
			return false
		}
	}
	return true
}

// giveRetention accepts the retention that a storage topic has already, even if the log refuses to
// set it: it may refuse everything.
func (c *Catalog) giveRetention(ctx context.Context, doc *Document, version registry.Version) error {
	for i := doc.Left(); i < len(doc.Storage); i++ {
		err := c.log.AlterTopic(ctx, doc.storageConfig(i))
		if err != nil && !(refuses(ctx, err) && c.has(ctx, doc, i)) {
			now, _, gone := c.ready(ctx, doc.Name, doc.Life)
			if gone == nil && errors.Is(err, fault.NotFound) {
				now, _, gone = c.caughtUp(ctx, doc.Name, doc.Life, false)
			}
			if gone == nil && i < now.Left() {
				return fmt.Errorf("topic %q: storage topic %d was retired: %w", doc.Name, i, fault.Conflict)
			}
			return errors.Join(gone, err)
		}
	}
	doc.Altering, doc.Before = false, nil
	return c.store(ctx, doc, version)
}

// has reports whether a storage topic has the retention of the definition.
func (c *Catalog) has(ctx context.Context, doc *Document, i int) bool {
	st, err := c.openStorage(ctx, doc, i)
	if err != nil {
		return false
	}
	defer func() { _ = st.Close() }() // it was only looked at
	have := st.Config()               // of a copy the card has more
	return have.WithRetentionOf(doc.storageConfig(i)) == have
}
