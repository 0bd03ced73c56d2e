package subscription

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/subscription/shard"
	"github.com/ringfence/ringfence/topic"
)

// Two things mark an internal topic of a subscription: its name has the ID of one of its sets, and its
// definition names it as a part of the subscription. A name alone is not enough: users may have topics of
// such names.

const (
	journalSuffix = ".retry"
	deadSuffix    = ".dead"
	decidedSuffix = ".decided"
)

// owner names a subscription in the definitions of its internal topics.
func owner(name string) string { return fmt.Sprintf("subscription %q", name) }

// parts are the internal topics of a subscription. Whatever is made, written, trimmed or deleted for it is
// one of them.
func (c *Catalog) parts(name string) topic.Parts { return c.topics.Parts(owner(name)) }

// JournalTopic names the journal of the set that delivers.
func (d *Document) JournalTopic() string { return d.Name + "." + d.Set().ID + journalSuffix }

// DeadTopic names the topic with the payloads of dead letters.
func (d *Document) DeadTopic() string { return d.Name + "." + d.Set().ID + deadSuffix }

// DecidedTopic names the topic with what orders made of records. It is that of all sets: a reshard leaves it as it is.
func (d *Document) DecidedTopic() string { return d.Name + "." + d.Life() + decidedSuffix }

// What the log keeps of decisions. A list of all of them is in memory.
const (
	decidedFor   = 30 * 24 * time.Hour
	decidedBytes = 256 << 20
)

// part is an internal topic, as a set has it.
type part struct {
	name   string
	config topic.Config
}

// partsOf returns the internal topics of the set that delivers; shared are those that it shares with other sets.
func (d *Document) partsOf() (own, shared []part) {
	lasting := topic.Config{Partitions: 1, RetentionAgeMS: decidedFor.Milliseconds(), RetentionBytes: decidedBytes}
	return []part{{d.JournalTopic(), d.config()}, {d.DeadTopic(), d.config()}}, []part{{d.DecidedTopic(), lasting}}
}

// setOf returns the set whose internal topic has this name in a subscription; ok is false for other names.
func setOf(name, topic string) (set string, ok bool) {
	rest, ok := strings.CutPrefix(topic, name+".")
	if !ok {
		return "", false
	}
	set, kind, _ := strings.Cut(rest, ".")
	return set, isSetID(set) && slices.Contains([]string{journalSuffix, deadSuffix, decidedSuffix}, "."+kind)
}

// journals are the internal topics of the set that delivers by a definition.
type journals struct {
	*shard.Journals
	Definition *Document
	reopen     func() // has them opened anew by the next use
}

// journalsOf opens the internal topics of the set that delivers. ErrConflict when one is not its own: that one is
// never read, written or trimmed.
func (c *Subscriptions) journalsOf(ctx context.Context, d *Document) (*journals, error) {
	set := d.Set()
	j := &journals{&shard.Journals{Set: set.ID, Shards: set.Shards, Retry: d.Retry.policy()}, d, func() { c.reopen(d) }}
	j.Stored = func(ctx context.Context, shard int) (int64, error) {
		g, err := protocol.NewGroup(c.reg, d.Group())
		if err != nil {
			return -1, err
		}
		u, err := g.Unit(ctx, shard)
		if err != nil || u.Checkpoint == nil {
			return -1, err
		}
		return u.Checkpoint.From, nil
	}
	j.Foreign = func(s shard.Foreign) {
		c.logger.Warn("a journal of the subscription has records that no shard wrote; they are passed over", "subscription", d.Name,
			"topic", d.JournalTopic(), "partition", s.Shard, "records", s.Count, "first", s.First, "error", s.Why)
	}
	for _, of := range []struct {
		name       string
		partitions int
		to         **commitlog.Topic
	}{{d.JournalTopic(), set.Shards, &j.Journal}, {d.DeadTopic(), set.Shards, &j.Dead}, {d.DecidedTopic(), 1, &j.Decisions}} {
		t, err := c.topics.Open(ctx, of.name)
		if err == nil {
			err = c.parts(d.Name).Check(t.Document())
		}
		if err == nil && t.Document().Storage[0].Partitions != of.partitions {
			err = fmt.Errorf("%d shards: expected %d partitions, and topic %q has %d: %w", set.Shards, of.partitions, of.name, t.Document().Storage[0].Partitions, ErrDamaged)
		}
		if err == nil {
			*of.to, err = t.Storage(0)
		}
		if err != nil {
			return nil, fmt.Errorf("subscription %q: %w", d.Name, err)
		}
	}
	return j, nil
}

// reopen has the internal topics of all sets opened anew by their next users.
func (c *Subscriptions) reopen(d *Document) {
	c.topics.Reopen(d.DecidedTopic())
	for _, set := range d.All() {
		c.topics.Reopen(set.JournalTopic())
		c.topics.Reopen(set.DeadTopic())
	}
}

// CheckTopic checks that the topic of a definition can be delivered. ErrNotFound when there is none,
// ErrConflict for a part of something.
func (c *Catalog) CheckTopic(ctx context.Context, d *Document) error {
	main, err := c.main(ctx, d.Topic)
	if err == nil {
		err = d.shares(main)
	}
	if err != nil {
		return fmt.Errorf("subscription %q: %w", d.Name, err)
	}
	return nil
}

// main returns a topic to be delivered. An internal topic is none: a subscription writes what it delivers
// to its own topics, so a record from there would come again, for ever.
func (c *Catalog) main(ctx context.Context, name string) (*topic.Document, error) {
	main, _, err := c.defined(ctx, name)
	return main, err
}

// defined is main, with the check that holds as long as the topic keeps this definition.
func (c *Catalog) defined(ctx context.Context, name string) (*topic.Document, registry.Check, error) {
	main, as, err := c.topics.Defined(ctx, name)
	if err == nil && main.Internal != "" {
		err = fmt.Errorf("topic %q is a part of %s, and only topics of users can be delivered: %w", name, main.Internal, fault.Conflict)
	}
	return main, as, err
}

// shares checks that the shards can share a topic: a set that follows no other has one for each partition.
func (d *Document) shares(t *topic.Document) error {
	for _, s := range d.Sets {
		if s.Storage >= len(t.Storage) {
			return fmt.Errorf("shards of storage topic %d, and topic %q has %d: %w", s.Storage, t.Name, len(t.Storage), ErrDamaged)
		}
		if s.State != retired && CheckShards(s.Shards, t.Storage[s.Storage].Partitions) != nil {
			return fmt.Errorf("%d shards, and topic %q has %d partitions: %w", s.Shards, t.Name, t.Storage[s.Storage].Partitions, ErrDamaged)
		}
	}
	return nil
}
