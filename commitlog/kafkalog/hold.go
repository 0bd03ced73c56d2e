package kafkalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// holdsTopic is where the holds of all topics of a log are kept: a compacted topic of one
// partition, made with the first hold. A record's key names the topic, its id and the hold
// (hold{}.key); its value is the offsets by partition as JSON, or nothing for a hold without an
// opinion. Which topics have holds, and of whom, any Kafka tool can see.
const holdsTopic = "ringfence-holds"

// holdSettings let Kafka compact that topic soon: it leaves a segment alone that it still writes to,
// by default for a week.
var holdSettings = map[string]string{"cleanup.policy": "compact", "segment.ms": "300000", "min.cleanable.dirty.ratio": "0.1"}

// heldSoFar is what was read of the topic of the holds. Its map is never changed.
type heldSoFar struct {
	id     [16]byte // of the topic
	next   int64
	latest map[string][]byte // by key
}

func (s *store) holdKey(name string) string {
	return fmt.Sprintf("%s/%x/%s", s.config.Name, s.id, name)
}

// Hold stores a hold in the cluster.
func (h *handle) Hold(ctx context.Context, name string, offsets []int64) error {
	if err := h.present(ctx); err != nil {
		return err
	}
	rec := driver.Record{Key: []byte(h.s.holdKey(name))}
	if slices.ContainsFunc(offsets, func(o int64) bool { return o >= 0 }) {
		rec.Value, _ = json.Marshal(offsets) // numbers only
	}
	holds, err := h.s.l.holds(ctx, true)
	if err != nil {
		return fmt.Errorf("hold %q of topic %q: %w", name, h.s.config.Name, err)
	}
	defer holds.Close()
	answer := make(chan error, 1)
	holds.Append(ctx, &driver.AppendRequest{Records: []driver.Record{rec}}, func(_ int64, err error) { answer <- err })
	select {
	case err = <-answer:
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", fault.Unknown, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("hold %q of topic %q: %w", name, h.s.config.Name, err)
	}
	return nil
}

// holds opens the topic of the holds, and makes it if that is wanted.
func (l *kafkaLog) holds(ctx context.Context, create bool) (driver.Topic, error) {
	t, err := l.OpenTopic(ctx, holdsTopic)
	if err == nil || !create || !isNotFound(err) {
		return t, err
	}
	if err := l.createAs(ctx, driver.TopicConfig{Name: holdsTopic, Partitions: 1}, holdSettings); err != nil {
		return nil, err
	}
	return l.OpenTopic(ctx, holdsTopic)
}

// heldOf is the lowest offset of each partition of s that a hold names; -1: none.
func (l *kafkaLog) heldOf(ctx context.Context, s *store) ([]int64, error) {
	held := slices.Repeat([]int64{-1}, len(s.parts))
	latest, err := l.readHolds(ctx, s.holdKey(""))
	if err != nil {
		return nil, err
	}
	for key, value := range latest {
		if err := lower(held, key, value); err != nil {
			return nil, err
		}
	}
	return held, nil
}

// lower lowers what is held to a stored hold.
func lower(held []int64, key string, value []byte) error {
	var offsets []int64
	if err := json.Unmarshal(value, &offsets); err != nil || len(offsets) != len(held) {
		return fmt.Errorf("%w: hold %q is %.100q; expected a JSON list of %d offsets", fault.Corrupt, key, value, len(held))
	}
	for p, o := range offsets {
		if o >= 0 && (held[p] < 0 || o < held[p]) {
			held[p] = o
		}
	}
	return nil
}

// readHolds reads on where it stopped the last time, and gives the holds whose keys have a prefix.
func (l *kafkaLog) readHolds(ctx context.Context, prefix string) (map[string][]byte, error) {
	t, err := l.holds(ctx, false)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer t.Close()
	b, err := t.Bounds(ctx, 0)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	have := l.held
	l.mu.Unlock()
	if h, _ := t.(*handle); h.s.id != have.id || have.next < b.First || have.next > b.Next {
		have = heldSoFar{id: h.s.id, next: b.First, latest: map[string][]byte{}}
	}
	have.latest = maps.Clone(have.latest)
	var recs []driver.Record
	for have.next < b.Next {
		var next int64
		if recs, next, err = t.Read(ctx, driver.ReadRequest{Offset: have.next, MaxBytes: fetchBytes}, recs[:0]); err != nil {
			return nil, err
		}
		if next == have.next {
			return nil, fmt.Errorf("%w: the holds could not be read to their end", fault.Unavailable)
		}
		for _, r := range recs {
			if r.Value == nil {
				delete(have.latest, string(r.Key))
			} else {
				have.latest[string(r.Key)] = bytes.Clone(r.Value)
			}
		}
		have.next = next
	}
	l.mu.Lock()
	l.held = have
	l.mu.Unlock()
	found := maps.Clone(have.latest)
	maps.DeleteFunc(found, func(key string, _ []byte) bool { return !strings.HasPrefix(key, prefix) })
	return found, nil
}
