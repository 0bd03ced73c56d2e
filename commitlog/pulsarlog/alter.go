package pulsarlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// AlterTopic implements driver.Log. The retention is a property of the topic, which is read whenever
// retention is applied.
func (l *log) AlterTopic(ctx context.Context, c driver.TopicConfig) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	have, _, err := l.shape(ctx, c.Name)
	if errors.Is(err, fault.Exists) {
		err = fmt.Errorf("%w: %w", fault.NotFound, err)
	}
	if err == nil {
		err = checkShape(have, c)
	}
	if err != nil {
		return fmt.Errorf("change the retention of topic %q: %w", c.Name, err)
	}
	b, err := json.Marshal(have.WithRetentionOf(c))
	if err != nil {
		return fmt.Errorf("topic %q: %w: %w", c.Name, fault.Invalid, err)
	}
	if err := l.admin.setProperties(ctx, c.Name, map[string]string{configProperty: string(b)}); err != nil {
		return fmt.Errorf("change the retention of topic %q: %w", c.Name, err)
	}
	l.mu.Lock()
	t := l.topics[c.Name]
	l.mu.Unlock()
	if t != nil {
		t.keep(c)
	}
	return nil
}

// checkShape is fault.Exists when a topic has other partitions than it should.
func checkShape(have, want driver.TopicConfig) error {
	if have.Partitions != want.Partitions {
		return fmt.Errorf("topic %q has %d partitions; expected were %d: %w", want.Name, have.Partitions, want.Partitions, fault.Exists)
	}
	return nil
}

func (t *topic) keep(c driver.TopicConfig) {
	c = t.config.WithRetentionOf(c)
	t.kept.Store(&c)
}

// follow takes the retention of the topic from its metadata, and returns it. What can't be read changes nothing.
func (t *topic) follow(m metadata) driver.TopicConfig {
	c, err := decodeConfig(t.config.Name, m.Properties[configProperty])
	if err == nil {
		t.keep(c)
	}
	return *t.kept.Load()
}
