package kafkalog

import (
	"context"
	"encoding/hex"

	"github.com/ringfence/ringfence/commitlog/driver"
)

var (
	_ driver.Identifier = (*kafkaLog)(nil)
	_ driver.Identified = (*handle)(nil)
)

// TopicID implements driver.Identifier: a topic of Kafka has an ID for its life (KIP-516).
func (l *kafkaLog) TopicID(ctx context.Context, name string) (string, error) {
	s, err := l.describe(ctx, name)
	if err != nil {
		return "", err
	}
	return s.topicID(), nil
}

// ID implements driver.Identified.
func (h *handle) ID() string { return h.s.topicID() }

// topicID is the ID in hex; "" for that of a broker which gives none.
func (s *store) topicID() string {
	if s.id == ([16]byte{}) {
		return ""
	}
	return hex.EncodeToString(s.id[:])
}
