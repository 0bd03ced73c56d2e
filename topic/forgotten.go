package topic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// A registry that went back may have forgotten a whole topic, while producers have it open. A creation looks for the
// topic in the log first: the card of the newest storage topic is its definition, and the topic is taken up by that.

// looks and lookPause: a log of several servers shows for a moment what was just deleted.
const (
	looks     = 5
	lookPause = 500 * time.Millisecond
)

// forgotten returns the definition of a topic that the log has and the registry does not know; nil: there is none.
// ErrExists when that can't be taken up as cfg asks.
func (c *Catalog) forgotten(ctx context.Context, name string, cfg Config) (*Document, error) {
	for look := 1; ; look++ {
		all, err := c.lives(ctx, name)
		if err != nil {
			return nil, err
		}
		lives, err := c.living(ctx, all, cfg.Life)
		if err != nil || len(lives) == 0 {
			return nil, err
		}
		if _, _, err := c.load(ctx, name); err == nil {
			return nil, fmt.Errorf("topic %q: another process has just made it: %w", name, fault.Conflict)
		}
		if look == looks || cfg.Internal != "" { // the name of a part is never given again
			return c.takeUp(name, lives, cfg)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookPause):
		}
	}
}

// storages is what the log has of one topic ID, by index.
type storages map[int]commitlog.TopicConfig

func (s storages) newest() commitlog.TopicConfig {
	return s[slices.Max(slices.Collect(maps.Keys(s)))]
}

// living are those topic IDs of which there is something to lose: all with records, or else all with a card. An ID
// that is asked for is one of them as soon as the log has a card of it.
func (c *Catalog) living(ctx context.Context, lives map[string]storages, asked string) (map[string]storages, error) {
	used, carded := map[string]storages{}, map[string]storages{}
	for life, s := range lives {
		if asked != "" && life != asked {
			continue
		}
		records, err := c.records(ctx, s)
		if err != nil {
			return nil, err
		}
		card := s.newest().Card != ""
		if records && (card || asked == "") {
			used[life] = s
		}
		if card {
			carded[life] = s
		}
	}
	if len(used) > 0 {
		return used, nil
	}
	return carded, nil
}

// records reports whether storage topics have records. One that is not there any more is being deleted.
func (c *Catalog) records(ctx context.Context, s storages) (bool, error) {
	for _, cfg := range s {
		st, err := c.log.Topic(ctx, cfg.Name)
		var used bool
		if err == nil {
			used, err = hasRecords(ctx, st)
			err = errors.Join(err, st.Close())
		}
		if err != nil && !errors.Is(err, fault.NotFound) || used {
			return used, err
		}
	}
	return false, nil
}

func hasRecords(ctx context.Context, st *commitlog.Topic) (bool, error) {
	for p := range st.Config().Partitions {
		if b, err := st.Bounds(ctx, p); err != nil || b.Next > b.First {
			return err == nil, err
		}
	}
	return false, nil
}

// takeUp makes the definition of the one topic ID that the log has.
func (c *Catalog) takeUp(name string, lives map[string]storages, cfg Config) (*Document, error) {
	ids := slices.Sorted(maps.Keys(lives))
	if len(ids) > 1 {
		return nil, fmt.Errorf("topic %q: the registry does not define it, and the log has several topics of that name, with the topic IDs %s: say which one goes on (--life ID): %w", name, strings.Join(ids, ", "), fault.Exists)
	}
	life, all := ids[0], lives[ids[0]]
	card, err := DecodeCard(all.newest().Name, all.newest().Card)
	switch {
	case err != nil:
		return nil, err
	case card == nil:
		return nil, fmt.Errorf("topic %q: the log holds records of it, in %s, which does not say how they are spread, and the registry does not define it (was it lost, or is another one used?): create it with their ID (--life %s), and with the partitions, router and hash that it had: %w", name, all.newest().Name, life, fault.Exists)
	case card.From != nil:
		return nil, fmt.Errorf("topic %q is being mirrored to this log, in %s: finish the cut-over, or use another name: %w", name, all.newest().Name, fault.Exists)
	case card.Internal != cfg.Internal:
		return nil, fmt.Errorf("topic %q: the log has it as a part of %q; asked for was one of %q: %w", name, card.Internal, cfg.Internal, fault.Exists)
	case card.Partitions[0] != cfg.Partitions || card.Router != cfg.Router || card.Hash != cfg.Hash:
		return nil, fmt.Errorf("topic %q: the registry does not define it, and the log has it with %d partitions, router %s, hash %s; asked for %d, %s, %s: create it as the log has it, and it goes on with its records: %w",
			name, card.Partitions[0], card.Router, card.Hash, cfg.Partitions, cfg.Router, cfg.Hash, fault.Exists)
	}
	return c.ofCard(name, life, card, all), nil
}

// ofCard is the definition that the log tells of a topic, with the pointer at the oldest storage topic of the unbroken
// run up to the newest; bringing it forward moves the pointer on.
func (c *Catalog) ofCard(name, life string, card *Card, all storages) *Document {
	d := &Document{
		Name: name, Life: life, State: Ready, Router: card.Router, Hash: card.Hash, Internal: card.Internal, Note: card.Note, Moved: card.Moved, Created: time.Now().UnixMilli(),
	}
	for i, n := range card.Partitions {
		s := Storage{Name: StorageName(c.namespace, name, life, i), Partitions: n, K: 1}
		if i > 0 {
			s.K = factor(d.Storage[i-1], n)
		}
		d.Storage = append(d.Storage, s)
	}
	d.Produce = len(d.Storage) - 1
	for d.Produce > 0 && all[d.Produce-1].Name != "" {
		d.Produce--
	}
	for i := range d.Produce {
		d.Storage[i].Retired = true
	}
	r := all.newest()
	d.RetentionBytes, d.RetentionAgeMS, d.RetentionForce = r.RetentionBytes, r.RetentionAgeMillis, r.RetentionForce
	return d
}

// tellTakenUp says that a creation goes on with what the log has.
func (c *Catalog) tellTakenUp(d *Document) {
	if c.logger != nil {
		c.logger.Warn("the registry has forgotten the topic: it went back, or is another one; the topic goes on with what the log has of it",
			"topic", d.Name, "id", d.Life, "storage_topics", len(d.Storage), "retired", d.Left(), "producing_to", d.Produce)
	}
}
