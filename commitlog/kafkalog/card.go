package kafkalog

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// A Kafka topic has no room for a card. Its card is a record in the topic of the holds, stored before the topic is
// made, under a number that one of the topic's own settings has from its first moment on. So Kafka, which
// decides between two makers of one name, decides between their cards too, and a later topic of the name has
// another number. What a maker that failed leaves behind no topic points to.

// cardSetting has the number of the card: the largest int64 less that. Kafka takes any record's timestamp by all of
// these values, and other programs have no reason to change it.
const cardSetting = "message.timestamp.after.max.ms"

// cardBits of the number: one more than 2^40 ms away from the largest int64 is no timestamp that clocks give.
const cardBits = 40

func cardValue(number int64) string { return strconv.FormatInt(math.MaxInt64-number, 10) }

// cardNumber is the number of a topic's card; 0: the topic has none.
func cardNumber(settings map[string]string) int64 {
	v, err := strconv.ParseInt(settings[cardSetting], 10, 64)
	if number := math.MaxInt64 - v; err == nil && v > 0 && number < 1<<cardBits {
		return number
	}
	return 0
}

func newCardNumber() int64 { return 1 + rand.Int64N(1<<cardBits-1) } //nolint:gosec // no secret

func cardKey(name string, number int64) string { return fmt.Sprintf("%s/card/%x", name, number) }

// withCard is a configuration with the card that the settings point to.
func (l *kafkaLog) withCard(ctx context.Context, c driver.TopicConfig, settings map[string]string) (driver.TopicConfig, error) {
	number := cardNumber(settings)
	if number == 0 {
		return c, nil
	}
	key := cardKey(c.Name, number)
	l.mu.Lock()
	card, ok := l.held.latest[key] // it never changes
	l.mu.Unlock()
	if !ok {
		found, err := l.readHolds(ctx, key)
		if err != nil {
			return c, fmt.Errorf("the card of topic %q: %w", c.Name, err)
		}
		if card, ok = found[key]; !ok {
			l.c.Logger.Warn("a topic has lost its card: its definition is known by the registry alone", "topic", c.Name, "expected", key, "in", l.kafkaName(holdsTopic))
		}
	}
	c.Card = string(card)
	return c, nil
}
