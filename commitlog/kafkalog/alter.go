package kafkalog

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// retentionSettings are those that a retention is made of.
var retentionSettings = []string{retentionMillis, retentionBytes, ownMillis, ownBytes}

// AlterTopic changes the settings of a Kafka topic, in one act of the controller.
func (l *kafkaLog) AlterTopic(ctx context.Context, c driver.TopicConfig) error {
	s, err := l.describe(ctx, c.Name)
	if err != nil {
		return err
	}
	if s.config.Partitions < c.Partitions { // an operator may have added some
		return s.checkShape(c)
	}
	settings, unset := l.settings(c), []string(nil)
	maps.DeleteFunc(settings, func(name, _ string) bool { return !slices.Contains(retentionSettings, name) })
	for _, name := range retentionSettings {
		if _, ok := settings[name]; !ok {
			unset = append(unset, name) // of the cluster's default Kafka goes by nothing here
		}
	}
	if err := s.set(ctx, settings, unset...); err != nil {
		return fmt.Errorf("change the retention of topic %q: %w", c.Name, err)
	}
	l.mu.Lock()
	open := l.stores[c.Name]
	l.mu.Unlock()
	if open != nil && open.id == s.id {
		open.keep(c)
	}
	select { // those that are open here need not wait
	case l.look <- struct{}{}:
	default:
	}
	return nil
}

// now is the configuration with the retention that was seen last.
func (s *store) now() driver.TopicConfig { return *s.kept.Load() }

func (s *store) keep(c driver.TopicConfig) {
	kept := s.config.WithRetentionOf(c)
	kept.Compacted = c.Compacted
	s.kept.Store(&kept)
}

// checkShape is fault.Exists when the topic has other partitions than c.
func (s *store) checkShape(c driver.TopicConfig) error {
	if have := s.config.Partitions; have != c.Partitions {
		return fmt.Errorf("topic %q has %d partitions; expected were %d: %w", c.Name, have, c.Partitions, fault.Exists)
	}
	return nil
}

func (l *kafkaLog) openStores() []*store {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.stores))
}

// followRetention reads the retention that the open topics have by now; false: it could not.
func (l *kafkaLog) followRetention() bool {
	byName := map[string]*store{}
	for _, s := range l.openStores() {
		byName[s.kafkaName] = s
	}
	err := persist(l.ctx, func(ctx context.Context) error {
		settings, err := l.describeConfigs(ctx, slices.Sorted(maps.Keys(byName))...)
		if err != nil {
			return err
		}
		for kafka, m := range settings {
			s := byName[kafka]
			s.keep(configOfTopic(s.config.Name, s.config.Partitions, m))
		}
		return nil
	})
	if err != nil && l.ctx.Err() == nil {
		l.c.Logger.Warn("whether the retention of the open topics was changed is not known; it is asked for again", "error", err)
	}
	return err == nil
}
