package kafkalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// holdsTopic is where the holds of all topics of a log are kept: a compacted topic of one
// partition, made with the first hold or card. The key of a hold's record has the topic, its ID and the name of
// the hold (holdKey); its value is the offsets by partition as JSON, or nothing for a hold without an
// opinion. Any Kafka tool shows which topics have which holds. The cards are there too, see card.go.
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
	var value []byte
	if slices.ContainsFunc(offsets, func(o int64) bool { return o >= 0 }) {
		value, _ = json.Marshal(offsets) // numbers only
	}
	if err := h.s.l.note(ctx, h.s.holdKey(name), value); err != nil {
		return fmt.Errorf("hold %q of topic %q: %w", name, h.s.config.Name, err)
	}
	return nil
}

// note stores a record in the topic of the holds.
func (l *kafkaLog) note(ctx context.Context, key string, value []byte) error {
	holds, err := l.holds(ctx, true)
	if err != nil {
		return err
	}
	defer holds.Close()
	answer := make(chan error, 1)
	rec := driver.Record{Key: []byte(key), Value: value}
	holds.Append(ctx, &driver.AppendRequest{Records: []driver.Record{rec}}, func(_ int64, err error) { answer <- err })
	select {
	case err = <-answer:
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", fault.Unknown, ctx.Err())
	}
	return err
}

// Holds implements driver.Topic.
func (h *handle) Holds(ctx context.Context) (map[string][]int64, error) {
	if err := h.present(ctx); err != nil {
		return nil, err
	}
	prefix := h.s.holdKey("")
	latest, err := h.s.l.readHolds(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("holds of topic %q: %w", h.s.config.Name, err)
	}
	holds := make(map[string][]int64, len(latest))
	for key, value := range latest {
		offsets, bad := decodeHold(key, value, len(h.s.parts))
		if err = errors.Join(err, bad); bad == nil {
			holds[key[len(prefix):]] = offsets
		}
	}
	return holds, err
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
	offsets, err := decodeHold(key, value, len(held))
	if err != nil {
		return err
	}
	for p, o := range offsets {
		if o >= 0 && (held[p] < 0 || o < held[p]) {
			held[p] = o
		}
	}
	return nil
}

// decodeHold reads a hold for a topic of so many partitions. Another program may have added some since the hold was
// stored, or since the topic was opened here: these hold nothing.
func decodeHold(key string, value []byte, partitions int) (offsets []int64, err error) {
	if err := json.Unmarshal(value, &offsets); err != nil || len(offsets) == 0 {
		return nil, fmt.Errorf("%w: hold %q is %.100q; expected a JSON list of %d offsets", fault.Corrupt, key, value, partitions)
	}
	offsets = append(offsets, slices.Repeat([]int64{-1}, max(0, partitions-len(offsets)))...)
	return offsets[:partitions], nil
}

// readHolds reads on where it stopped the last time, and gives the records whose keys have a prefix.
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
