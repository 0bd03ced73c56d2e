package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// CreateTopic makes a Kafka topic; that and its configuration are one act of the controller.
func (l *kafkaLog) CreateTopic(ctx context.Context, c driver.TopicConfig) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	var own map[string]string
	if c.Card != "" {
		own = map[string]string{cardSetting: cardValue(newCardNumber())}
	}
	return l.createAs(ctx, c, own)
}

// createAs is CreateTopic with some settings of its own.
func (l *kafkaLog) createAs(ctx context.Context, c driver.TopicConfig, own map[string]string) error {
	err := persist(ctx, func(ctx context.Context) error { return l.create(ctx, c, own) })
	if errors.Is(err, fault.Exists) {
		var have *store
		again := persist(ctx, func(ctx context.Context) (err error) {
			if have, err = l.describe(ctx, c.Name); isNotFound(err) {
				return errNoLeader // the controller knows it, and the broker that we asked will soon
			}
			return err
		})
		if again != nil {
			return again
		}
		return have.checkShape(c)
	}
	if err != nil {
		return fmt.Errorf("create topic %q: %w", c.Name, err)
	}
	// The brokers learn of it one after another.
	return persist(ctx, func(ctx context.Context) error {
		found, err := l.metadata(ctx, l.kafkaName(c.Name))
		if err != nil {
			return err
		}
		if m, ok := found[l.kafkaName(c.Name)]; !ok || len(m.leaders) < c.Partitions || slices.Contains(m.leaders, -1) {
			return errNoLeader
		}
		return nil
	})
}

func (l *kafkaLog) create(ctx context.Context, c driver.TopicConfig, own map[string]string) error {
	settings := l.settings(c)
	maps.Copy(settings, own)
	would, err := l.tryCreate(ctx, c, settings, true)
	if err != nil {
		return err
	}
	l.surviving(settings, would)
	if number := cardNumber(settings); number != 0 {
		if err := l.note(ctx, cardKey(c.Name, number), []byte(c.Card)); err != nil {
			return fmt.Errorf("its card: %w", err)
		}
	}
	_, err = l.tryCreate(ctx, c, settings, false)
	return err
}

// tryCreate asks for a topic, or only for what would become of it.
func (l *kafkaLog) tryCreate(ctx context.Context, c driver.TopicConfig, settings map[string]string, dry bool) (*kmsg.CreateTopicsResponseTopic, error) {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = l.kafkaName(c.Name), int32(c.Partitions), -1 //nolint:gosec // at most 4096
	if l.c.Replication > 0 {
		t.ReplicationFactor = int16(l.c.Replication) //nolint:gosec // validated
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		s := kmsg.NewCreateTopicsRequestTopicConfig()
		s.Name, s.Value = name, kmsg.StringPtr(settings[name])
		t.Configs = append(t.Configs, s)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.ValidateOnly = int32(requestTimeout.Milliseconds()), dry
	req.Topics = append(req.Topics, t)
	resp, err := anyBroker(ctx, l, req) // what an earlier try made is compared with what was asked for
	if err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 {
		return nil, errNoAnswer
	}
	answer := &resp.Topics[0]
	err = kerr.ErrorForCode(answer.ErrorCode)
	if errors.Is(err, kerr.InvalidTopicException) {
		return nil, fmt.Errorf("%w: Kafka takes the name %q for no topic, as when another differs from it by '.' and '_' only (their metrics would collide): %s",
			fault.Invalid, answer.Topic, text(answer.ErrorMessage))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, text(answer.ErrorMessage))
	}
	return answer, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// kafkaName is the name of a topic in Kafka.
func (l *kafkaLog) kafkaName(name string) string { return l.c.Prefix + name }

// DeleteTopic removes the topic and waits until the broker that answers us knows.
func (l *kafkaLog) DeleteTopic(ctx context.Context, name string) error {
	s, err := l.describe(ctx, name)
	if err != nil {
		return err
	}
	if err := s.remove(ctx); err != nil {
		return fmt.Errorf("delete topic %q: %w", name, err)
	}
	if s.card != 0 {
		if err := l.note(ctx, cardKey(name, s.card), nil); err != nil {
			l.c.Logger.Warn("the card of a deleted topic stays, which harms nothing", "topic", name, "error", err)
		}
	}
	l.mu.Lock()
	open := l.stores[name]
	l.mu.Unlock()
	if open != nil && open.id == s.id {
		open.gone.Store(true)
		open.wakeAll()
	}
	return persist(ctx, func(ctx context.Context) error {
		found, err := l.metadata(ctx, s.kafkaName)
		if m, ok := found[s.kafkaName]; err == nil && ok && m.id == s.id {
			return fmt.Errorf("topic %q is still being deleted", name)
		}
		return err
	})
}

// remove deletes the topic by its identity: a try whose answer was lost is repeated, and must not
// meet the next topic of this name.
func (s *store) remove(ctx context.Context) error {
	return persist(ctx, func(ctx context.Context) error {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.TopicID = s.id
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = int32(requestTimeout.Milliseconds())
		req.Topics = append(req.Topics, t)
		resp, err := anyBroker(ctx, s.l, req)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.UnknownTopicID) && !errors.Is(err, kerr.UnknownTopicOrPartition) {
				return fmt.Errorf("%w: %s", err, text(t.ErrorMessage))
			}
		}
		return nil
	})
}

// Topics lists the topics whose names have the log's prefix and are names of ours.
func (l *kafkaLog) Topics(ctx context.Context) ([]driver.TopicConfig, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	var list []driver.TopicConfig
	err := persist(ctx, func(ctx context.Context) error {
		all, err := l.metadata(ctx)
		if err != nil {
			return err
		}
		var names []string
		for kafka := range all {
			if name, ok := strings.CutPrefix(kafka, l.c.Prefix); ok && commitlog.CheckName(name) == nil && name != holdsTopic {
				names = append(names, kafka)
			}
		}
		slices.Sort(names)
		settings, err := l.describeConfigs(ctx, names...)
		if err != nil {
			return err
		}
		list = make([]driver.TopicConfig, 0, len(names))
		for _, kafka := range names {
			if m, ok := settings[kafka]; ok {
				c, err := l.withCard(ctx, configOfTopic(strings.TrimPrefix(kafka, l.c.Prefix), len(all[kafka].leaders), m), m)
				if err != nil {
					return err
				}
				list = append(list, c)
			}
		}
		return nil
	})
	return list, err
}

// describe finds a topic as it is now.
func (l *kafkaLog) describe(ctx context.Context, name string) (*store, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	var s *store
	err := persist(ctx, func(ctx context.Context) error {
		kafka := l.kafkaName(name)
		found, err := l.metadata(ctx, kafka)
		if err != nil {
			return err
		}
		m, ok := found[kafka]
		if !ok { // or that broker has not heard of it yet
			all, err := l.search(ctx, kafka)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return fmt.Errorf("%w (create it first)", fault.NotFound)
			}
			m = all[0]
		}
		// One wrong bit in that answer would be another topic's ID, for ever in a definition that is made by it.
		switch again, err := l.metadata(ctx, kafka); {
		case err != nil:
			return err
		case again[kafka].id != m.id || len(again[kafka].leaders) != len(m.leaders):
			return errContradiction
		}
		settings, err := l.describeConfigs(ctx, kafka)
		if err != nil {
			return err
		}
		if settings[kafka] == nil {
			return errNoLeader // likewise
		}
		c, err := l.withCard(ctx, configOfTopic(name, len(m.leaders), settings[kafka]), settings[kafka])
		if err != nil {
			return err
		}
		s = newStore(l, c, kafka, m)
		s.card = cardNumber(settings[kafka])
		s.weak = l.tooWeak(name, settings[kafka], m.fewest)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("open topic %q: %w", name, err)
	}
	return s, nil
}

var errContradiction = errors.New("two answers tell of different topics by that name")
